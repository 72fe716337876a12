"""A Hugging Face causal language model as a backbone: render, generate in batches, encode.

`HFModel.module` is the plain transformers module: a method may train it, wrap its final norm or
hook it. Decoding then goes through the module's own forward; the faster `llama` session is used
only while the backbone's layers are untouched (see `HFModel.session`).
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from expbench.core import Output, Prompt, Segment
from expbench.errors import ConfigError
from expbench.models.decoding import Completion, Request, plan_batches
from expbench.models.generation import EmbeddingSession, ForwardSession, Session, decode
from expbench.models.llama import LlamaSession, is_plain_llama
from expbench.models.prompting import Rendered, plain_ids, render

BATCH_TOKENS = {"cpu": 32_768, "cuda": 131_072}
"""Default budget of a batch by device type: a fixed number, so that batches repeat."""
MAX_ROWS = 256
ROWS_PER_SHARE = 8
"""Fewest rows worth a pass over the weights of their own."""
MAX_SHARES = 4
"""More shares than this read the weights too often for the memory's bandwidth."""


class HFModel:
    """A backbone loaded by transformers; see `expbench.core.Model`."""

    def __init__(
        self,
        *,
        name: str,
        module: Any,
        tokenizer: Any,
        fingerprint: str,
        source: str,
        revision: str | None,
        batch_tokens: int | None = None,
    ) -> None:
        self.name = name
        self.module = module
        self.tokenizer = tokenizer
        self.fingerprint = fingerprint
        self.source = source
        """Where the files came from: `built-in`, `folder`, `hub` or `wheel`."""
        self.revision = revision
        self.device = str(module.device)
        self.dtype = str(module.dtype).removeprefix("torch.")
        self.batch_tokens = batch_tokens or BATCH_TOKENS.get(module.device.type, 32_768)
        self.eos_ids = _eos_ids(module, tokenizer)
        self.pad_id = _first(tokenizer.pad_token_id, *sorted(self.eos_ids), 0)
        self.context_limit: int | None = getattr(module.config, "max_position_embeddings", None)
        self.memory_splits = 0
        """How often a batch was halved because memory ran out."""

    @classmethod
    def load(
        cls,
        name: str,
        *,
        device: str = "auto",
        dtype: str = "auto",
        batch_tokens: int | None = None,
    ) -> "HFModel":
        """Load a model by name; see `expbench.models.load_model`."""
        from expbench.models.loading import load_parts

        parts = load_parts(name, device=device, dtype=dtype)
        return cls(**parts, name=name, batch_tokens=batch_tokens)

    def fork(self, *, share_weights: bool) -> "HFModel":
        """Return a private copy whose parts may be wrapped, replaced or given adapters.

        Args:
            share_weights: Share the weights' memory instead of copying it: for training that leaves
                them as they are, such as LoRA. The parameters are the copy's own, and with them
                what is frozen. Tied weights stay tied either way.
        """
        shared = {}
        if share_weights:
            shared = {
                id(p): torch.nn.Parameter(p.detach(), requires_grad=p.requires_grad)
                for p in self.module.parameters()
            }
        fork = copy.copy(self)
        fork.module = copy.deepcopy(self.module, shared)
        fork.memory_splits = 0
        return fork

    def render(self, prompt: Prompt) -> Rendered:
        """Return the token ids of a prompt in the model's chat format."""
        return render(self.tokenizer, prompt)

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Output]:
        """Answer every prompt; see `expbench.core.Model`.

        Raises:
            ConfigError: a prompt and its answer do not fit the model's context (prompts are never
                truncated), or the model's logits are not numbers.
        """
        return [output_of(*pair) for pair in self.complete(prompts, temperature, seed)]

    def complete(
        self, prompts: Sequence[Prompt], temperature: float = 0.0, seed: int = 0
    ) -> list[tuple[Rendered, Completion]]:
        """Do what `generate` does and return token ids as well; see there."""
        rendered = [self.render(prompt) for prompt in prompts]
        requests = [
            Request(
                ids=text.ids,
                max_tokens=prompt.question.max_tokens,
                stop=prompt.question.stop,
                key=f"{prompt.question.task}/{prompt.question.id}",
            )
            for prompt, text in zip(prompts, rendered, strict=True)
        ]
        completions = self.generate_ids(requests, temperature=temperature, seed=seed)
        return list(zip(rendered, completions, strict=True))

    def generate_ids(
        self, requests: Sequence[Request], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Completion]:
        """Continue token ids, in the order given; the layer below `generate`.

        Raises:
            ConfigError: see `generate`; also a negative temperature.
        """
        if temperature < 0:
            raise ConfigError(f"temperature is {temperature}; it must be 0 or more.")
        for request in requests:
            self.check_fits(len(request.ids), request.max_tokens, request.key)
        sizes = [(len(request.ids), request.max_tokens) for request in requests]
        done: dict[int, Completion] = {}

        def run(rows: list[int]) -> None:
            answers = self._decode([requests[i] for i in rows], temperature, seed)
            done.update(zip(rows, answers, strict=True))

        with _inference(self.module):
            for rows in plan_batches(sizes, batch_tokens=self.batch_tokens, max_rows=MAX_ROWS):
                self._halving(run, rows)
        return [done[i] for i in range(len(requests))]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the last layer's state after the final norm at the last token.

        Returns:
            (texts, hidden) float32.

        Raises:
            ConfigError: a text is longer than the model's context.
        """
        encoded = [plain_ids(self.tokenizer, text) or [self.pad_id] for text in texts]
        for ids in encoded:
            self.check_fits(len(ids), 0, "a text to encode")
        states = np.zeros((len(texts), self.module.config.hidden_size), dtype=np.float32)

        def run(rows: list[int]) -> None:
            states[rows] = self._last_states([encoded[i] for i in rows])

        sizes = [(len(ids), 0) for ids in encoded]
        with _inference(self.module):
            for rows in plan_batches(sizes, batch_tokens=self.batch_tokens // 4, max_rows=MAX_ROWS):
                self._halving(run, rows)
        return states

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a plain text without special tokens; an empty text has none."""
        return len(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def session(self, max_new: int) -> Session:
        """Start a batch of rows that may generate `max_new` tokens each.

        The fast session while the module is untouched, else the module's own forward.
        """
        return start_session(self.module, max_new=max_new, pad_id=self.pad_id)

    def _decode(
        self, requests: Sequence[Request], temperature: float, seed: int
    ) -> list[Completion]:
        """Decode one batch, on a CPU as several independent shares side by side.

        Threads that share every matrix product wait for each other thousands of times a second,
        and lose most of the machine as soon as anything else runs on it; shares never wait.
        """
        threads = torch.get_num_threads()
        shares = 1
        if is_plain_llama(self.module):
            shares = max(1, min(threads, MAX_SHARES, len(requests) // ROWS_PER_SHARE))
        cancelled = Event()

        def run(share: int) -> list[Completion]:
            torch.set_num_threads(threads // shares)
            part = requests[share::shares]
            with torch.no_grad():
                return decode(
                    self.session(max(request.max_tokens for request in part)),
                    part,
                    tokenizer=self.tokenizer,
                    eos_ids=self.eos_ids,
                    temperature=temperature,
                    seed=seed,
                    is_cancelled=cancelled.is_set,
                )

        if shares == 1:
            return run(0)
        done: dict[int, Completion] = {}
        with ThreadPoolExecutor(shares) as pool:
            try:
                for share, part in enumerate(pool.map(run, range(shares))):
                    done.update(zip(range(share, len(requests), shares), part, strict=True))
            finally:
                # After an error or Ctrl-C the other shares must not run to their end.
                cancelled.set()
                torch.set_num_threads(threads)
        return [done[i] for i in range(len(requests))]

    def _last_states(self, texts: Sequence[list[int]]) -> NDArray[np.float32]:
        # Padding on the right needs no mask: a causal model's earlier positions never see it.
        width = max(len(ids) for ids in texts)
        rows = [ids + [self.pad_id] * (width - len(ids)) for ids in texts]
        body = self.module.get_decoder()
        ids_BT = torch.tensor(rows, device=self.module.device)
        hidden_BTD = body(input_ids=ids_BT, use_cache=False).last_hidden_state
        last = torch.tensor([len(ids) - 1 for ids in texts], device=hidden_BTD.device)
        states_BD = hidden_BTD[torch.arange(len(texts), device=hidden_BTD.device), last]
        array: NDArray[np.float32] = states_BD.float().cpu().numpy()
        return array

    def check_fits(self, length: int, max_tokens: int, what: str) -> None:
        """Refuse a prompt that does not fit the model's context with its answer.

        Raises:
            ConfigError: it does not; prompts are never truncated.
        """
        if self.context_limit is not None and length + max_tokens > self.context_limit:
            raise ConfigError(
                f"The prompt of {what!r} has {length} tokens and may grow by {max_tokens}, but "
                f"{self.name} reads at most {self.context_limit}. Retrieve less or lower the limit."
            )

    def _halving(self, run: Callable[[list[int]], None], rows: list[int]) -> None:
        try:
            run(rows)
            return
        except RuntimeError as error:
            if not _is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise ConfigError(
                    f"Not enough memory on {self.device} for a single prompt of {self.name}; "
                    "use a smaller model, a shorter prompt or another device."
                ) from error
        self.memory_splits += 1
        if self.module.device.type == "cuda":
            torch.cuda.empty_cache()
        self._halving(run, rows[: len(rows) // 2])
        self._halving(run, rows[len(rows) // 2 :])


def start_session(module: Any, *, max_new: int, pad_id: int) -> EmbeddingSession:
    """Start a batch on a module: see `HFModel.session`."""
    if is_plain_llama(module):
        return LlamaSession(module, max_new=max_new)
    return ForwardSession(module, pad_id=pad_id)


def output_of(rendered: Rendered, completion: Completion) -> Output:
    """Return an answer with its cost by role."""
    segments = [
        Segment(role="prompt", tokens=rendered.prompt_tokens),
        Segment(role="retrieved", tokens=rendered.retrieved_tokens),
        Segment(role="generated", tokens=len(completion.ids)),
    ]
    return Output(
        text=completion.text,
        stop_reason=completion.stop_reason,
        segments=tuple(s for s in segments if s.tokens or s.role != "retrieved"),
    )


@contextmanager
def _inference(module: Any) -> Iterator[None]:
    training = module.training
    module.eval()
    try:
        # Not inference mode: a hook may keep a hidden state and train on it later.
        with torch.no_grad():
            yield
    finally:
        module.train(training)


def _eos_ids(module: Any, tokenizer: Any) -> frozenset[int]:
    ids: set[Any] = set()
    for value in (
        getattr(module.generation_config, "eos_token_id", None),
        module.config.eos_token_id,
        tokenizer.eos_token_id,
    ):
        ids.update(value if isinstance(value, (list, tuple)) else [value])
    return frozenset(i for i in ids if i is not None)


def _first(*values: int | None) -> int:
    return next(value for value in values if value is not None)


def _is_out_of_memory(error: RuntimeError) -> bool:
    return isinstance(error, torch.OutOfMemoryError) or "can't allocate memory" in str(error)
