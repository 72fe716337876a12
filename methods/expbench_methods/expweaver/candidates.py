"""Scores of candidates: the fused state at the end of the question against each title's embedding.

Shapes: B questions, C candidates of the longest question, N texts, D hidden size, T tokens.
"""

import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from expbench.core import Prompt, Question
from expbench.experience.normalise import Normalisation, Statistics
from expbench.models.decoding import plan_batches
from expbench.models.hf import HFModel
from expbench.models.prompting import plain_ids
from expbench_methods.expweaver.install import FusedNorm, bypassed

TEMPERATURE = 0.1
"""Of the start. Cosines of centred states differ by about 0.1 between candidates."""
OPENING = "-"
"""Opens the answer as the task's own lists are, so that the state stands where a title begins."""
CALIBRATION_QUESTIONS = 16
"""Train questions whose states give the statistics of the queries, at most."""
CALIBRATION_TITLES = 64
"""Titles of train candidates that give the statistics of the candidates, at most."""
BATCH_TOKENS = 8192
"""Tokens of a forward pass without gradients, padding included."""


class CandidateScorer(nn.Module):
    """Cosine of question and candidate, both centred and scaled, over a learnable temperature.

    The question is the fused final state of its prompt's last token. A candidate is the unfused
    final state of its title as a line of the tasks' lists of titles. Embeddings of candidates carry
    no gradient and are kept until `refresh`.

    Args:
        model: Renders and encodes; its parameters are not the scorer's.
        normalise: What happens to both sides before the cosine.
    """

    query_centre_D: Tensor
    query_scale: Tensor
    title_centre_D: Tensor
    title_scale: Tensor

    def __init__(self, model: HFModel, *, normalise: Normalisation = "standardise") -> None:
        super().__init__()
        self.model = model
        self.normalise: Normalisation = normalise
        device = model.module.device
        self.log_temperature = nn.Parameter(torch.tensor(math.log(TEMPERATURE), device=device))
        width = int(model.module.config.get_text_config().hidden_size)
        for side in ("query", "title"):
            self.register_buffer(f"{side}_centre_D", torch.zeros(width, device=device))
            self.register_buffer(f"{side}_scale", torch.ones((), device=device))
        self.recent_ND = torch.zeros(0, width)
        """Unfused states of the questions last scored with gradients, for statistics."""
        self._titles: dict[str, Tensor] = {}
        self._calibration: list[str] = []

    def calibrate(self, questions: Sequence[Question]) -> None:
        """Measure centre and scale of both sides on train questions; none change nothing.

        The queries' statistics stay as they are from then on; the candidates' follow the encoder
        at every `refresh`.
        """
        if not questions:
            return
        with torch.no_grad():
            states_ND = self._states(
                [self.prompt(question) for question in questions[:CALIBRATION_QUESTIONS]]
            )
        self._set("query", Statistics.of(states_ND, self.normalise))
        titles = dict.fromkeys(title for question in questions for title in question.candidates)
        self._calibration = list(titles)[:CALIBRATION_TITLES]
        self.refresh()

    def refresh(self) -> None:
        """Forget the embeddings of titles: the encoder has moved."""
        self._titles.clear()
        if self._calibration:
            titles_ND = self.embed(self._calibration)
            self._set("title", Statistics.of(titles_ND, self.normalise))

    def embed(self, titles: Sequence[str]) -> Tensor:
        """Return the unfused states of titles, (N, D) float32, without gradient."""
        missing = [title for title in dict.fromkeys(titles) if title not in self._titles]
        if missing:
            with torch.no_grad(), self._unfused():
                states_ND = self._states([self._title_prompt(title) for title in missing])
            self._titles.update(zip(missing, states_ND, strict=True))
        return torch.stack([self._titles[title] for title in titles])

    def scores(self, questions: Sequence[Question]) -> Tensor:
        """Score every candidate.

        Returns:
            (B, C) float32, with gradients where they are on; -inf where a question has fewer
            candidates than the longest one.
        """
        queries_BD = self._states([self.prompt(question) for question in questions])
        queries_BD = self._side("query").apply(queries_BD)
        most = max(len(question.candidates) for question in questions)
        rows = []
        for question, query_D in zip(questions, queries_BD, strict=True):
            titles_CD = self._side("title").apply(self.embed(question.candidates))
            cosines_C = functional.cosine_similarity(titles_CD, query_D.unsqueeze(0), dim=-1)
            padding = (0, most - len(question.candidates))
            scores_C = cosines_C / self.log_temperature.exp()
            rows.append(functional.pad(scores_C, padding, value=-math.inf))
        return torch.stack(rows)

    def rank(self, questions: Sequence[Question]) -> list[list[int]]:
        """Return the candidates' positions, best first; equal scores keep their order."""
        with torch.no_grad():
            # One question at a time: an answer must not depend on its neighbours.
            rows = [self.scores([question])[0] for question in questions]
        return [torch.argsort(row, descending=True, stable=True).tolist() for row in rows]

    def count_tokens(self, title: str) -> int:
        """Count the tokens that encoding a title reads."""
        return len(self._title_prompt(title))

    def prompt_tokens(self, questions: Iterable[Question]) -> int:
        """Count the tokens of the questions' prompts, titles not included."""
        return sum(len(self.prompt(question)) for question in questions)

    def state_module(self) -> nn.Module:
        """Return a module whose parameters are all that is to be saved; it shares the memory."""
        state = nn.Module()
        state.register_parameter("log_temperature", self.log_temperature)
        for name, buffer in self.named_buffers():
            state.register_parameter(name, nn.Parameter(buffer, requires_grad=False))
        return state

    def _set(self, side: str, statistics: Statistics) -> None:
        getattr(self, f"{side}_centre_D").copy_(statistics.centre_D)
        getattr(self, f"{side}_scale").fill_(statistics.scale)

    def _side(self, side: str) -> Statistics:
        return Statistics(getattr(self, f"{side}_centre_D"), float(getattr(self, f"{side}_scale")))

    def prompt(self, question: Question) -> list[int]:
        """Return the token ids whose last state is compared with the candidates."""
        opening = self.model.tokenizer(OPENING, add_special_tokens=False)["input_ids"]
        return [*self.model.render(Prompt(question=question)).ids, *opening]

    def _title_prompt(self, title: str) -> list[int]:
        return plain_ids(self.model.tokenizer, f"- {title}")

    def _norm(self) -> nn.Module:
        norm: nn.Module = self.model.module.get_decoder().norm
        return norm

    def _unfused(self) -> AbstractContextManager[None]:
        fused = isinstance(self._norm(), FusedNorm)
        return bypassed(self.model.module) if fused else nullcontext()

    def _states(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Return the state at each prompt's last token, (N, D) float32, fused unless bypassed."""
        for ids in prompts:
            self.model.check_fits(len(ids), 0, "a question or a title to rank")
        norm = self._norm()
        fuses = isinstance(norm, FusedNorm) and not norm.bypasses
        device = self.model.module.device
        states_ND: list[Tensor] = [torch.empty(0)] * len(prompts)
        # With gradients the caller decides how much goes through at once.
        batches = [list(range(len(prompts)))]
        if not torch.is_grad_enabled():
            sizes = [(len(ids), 0) for ids in prompts]
            batches = list(plan_batches(sizes, batch_tokens=BATCH_TOKENS, max_rows=64))
        for rows in batches:
            width = max(len(prompts[row]) for row in rows)
            # Padding on the right needs no mask: a causal model's earlier positions never see it.
            ids_BT = torch.tensor(
                [[*prompts[r], *[self.model.pad_id] * (width - len(prompts[r]))] for r in rows],
                device=device,
            )
            with self._unfused():
                body = self.model.module.get_decoder()
                hidden_BTD = body(input_ids=ids_BT, use_cache=False).last_hidden_state
            last = [len(prompts[row]) - 1 for row in rows]
            for state_D, row in zip(hidden_BTD[range(len(rows)), last], rows, strict=True):
                states_ND[row] = state_D
        stacked_ND = torch.stack(states_ND)
        if torch.is_grad_enabled():
            self.recent_ND = stacked_ND.detach().float()
        # Only the last token's state is read, so only it is fused.
        if fuses:
            assert isinstance(norm, FusedNorm)
            stacked_ND = norm.fusion(stacked_ND)
        return stacked_ND.float()
