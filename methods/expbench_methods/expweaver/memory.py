"""From graded attempts to entries of the bank: summary, encoding, statistics of the queries."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from expbench.core import Experience, Prompt, Sample, Score
from expbench.experience.bank import Entry, entry_of
from expbench.experience.normalise import Statistics
from expbench.experience.pool import summarise_attempt
from expbench.training.loop import Attempt
from expbench_methods.expweaver.states import answer_states
from expbench_methods.expweaver.summaries import write_summaries
from expbench_methods.expweaver.weaver import Weaver

QUERY_ATTEMPTS = 16
"""Attempts whose states give the first statistics of the queries."""
WINDOW_ATTEMPTS = 4
"""Attempts of a window whose states move the statistics: the same ones on every process."""
ANSWER_TOKENS = 64
"""Tokens of an attempt that are looked at for statistics."""
QUERY_RATE = 0.1
"""Share of a window in the running statistics of the queries."""


def as_experience(attempt: Attempt) -> Experience:
    """Turn a graded rollout into an experience with the extractive summary."""
    # Of a ranking the best places say most; a text is summed up by its end.
    best = ", ".join(attempt.text.split("\n")[:3]) if attempt.sample.kind == "ranking" else None
    score = Score(value=attempt.reward or 0.0, answer=best)
    summary = summarise_attempt(attempt.sample, attempt.text, score)
    return Experience(sample=attempt.sample, output=attempt.text, score=score, summary=summary)


def remember(weaver: Weaver, experiences: Sequence[Experience], *, step: int) -> None:
    """Encode experiences with the policy as it is and add them to the bank.

    Args:
        weaver: Its bank grows; the fusion sees it after `show_bank`.
        experiences: Graded attempts at train samples.
        step: Optimizer steps the policy has taken; 0 for the shared pool.
    """
    if not experiences:
        return
    with weaver.as_encoder():
        if weaver.config.summary == "policy":
            texts, tokens = write_summaries(
                weaver.model, experiences, max_tokens=weaver.config.summary_tokens
            )
            experiences = [
                replace(e, summary=text) for e, text in zip(experiences, texts, strict=True)
            ]
            weaver.tokens["summaries"] += tokens
        vectors = torch.from_numpy(weaver.model.encode([e.summary for e in experiences]))
    weaver.tokens["encoded"] += sum(weaver.model.count_tokens(e.summary) for e in experiences)
    weaver.bank.add(entries_of(weaver, experiences, step=step), vectors)


def entries_of(weaver: Weaver, experiences: Sequence[Experience], *, step: int) -> list[Entry]:
    """Describe experiences that the policy encoded after `step` optimizer steps."""
    return [
        entry_of(
            e.sample,
            n=n,
            step=step,
            reward=e.score.value,
            summary=e.summary,
            encoder=weaver.model.fingerprint,
        )
        for n, e in enumerate(experiences)
    ]


def query_states(weaver: Weaver, attempts: Sequence[Attempt]) -> Tensor:
    """Return states before fusion where the tokens of attempts were chosen, (tokens, D) float32.

    A ranking question has one: the state that its candidates are compared with.
    """
    with weaver.as_encoder():
        found = answer_states(
            weaver.model,
            [_prompt_ids(weaver, attempt.sample) for attempt in attempts],
            [a.ids[:ANSWER_TOKENS] for a in attempts],
        )
    return torch.cat(found).float()


def calibrate(weaver: Weaver, experiences: Sequence[Experience]) -> None:
    """Set the statistics of the queries from attempts spread evenly over the pool."""
    if not experiences:
        return
    stride = max(1, len(experiences) // QUERY_ATTEMPTS)
    attempts = [
        Attempt(
            sample=e.sample,
            text=e.output,
            ids=_answer_ids(weaver, e),
            reward=e.score.value,
            stop_reason="stop",
        )
        for e in experiences[::stride]
    ]
    weaver.bank.query = Statistics.of(query_states(weaver, attempts), weaver.config.normalise)


def follow_queries(weaver: Weaver, states_TD: Tensor) -> None:
    """Move the bank's running statistics of the queries; one state alone has no spread to follow.

    Banks and memories made from the bank afterwards have the new ones.
    """
    old = weaver.bank.query
    if old is not None and len(states_TD) < 2:
        return
    fresh = Statistics.of(states_TD.detach(), weaver.config.normalise)
    weaver.bank.query = fresh if old is None else old.moved(fresh, QUERY_RATE)


def follow(weaver: Weaver, attempts: Sequence[Attempt], *, step: int) -> dict[str, float]:
    """Move the statistics of the queries with the policy and say what the fusion does now.

    Returns:
        `gate_openness` (mean share of retrieved content a dimension takes in), `retrieval_entropy`
        (of the attention weights, in nats), `bank_size`, `bank_age` (mean steps since entry).
    """
    weaver.show_bank()
    ages = [step - entry.step for entry in weaver.bank.entries]
    if not attempts or not ages:
        return {"bank_size": float(len(ages))}
    if attempts[0].sample.kind == "ranking":
        states_TD = weaver.scorer.recent_ND
    else:
        states_TD = query_states(weaver, attempts[:: max(1, len(attempts) // WINDOW_ATTEMPTS)])
    follow_queries(weaver, states_TD)
    weaver.show_bank()
    with torch.no_grad():
        seen = weaver.fusion.explain(states_TD)
    weights_TK = seen.weights_TK.clamp_min(1e-12)
    return {
        "gate_openness": float(seen.gate_T.mean()),
        "retrieval_entropy": float(-(weights_TK * weights_TK.log()).sum(1).mean()),
        "bank_size": float(len(ages)),
        "bank_age": sum(ages) / len(ages),
    }


def _prompt_ids(weaver: Weaver, sample: Sample) -> list[int]:
    if sample.kind == "ranking":
        return weaver.scorer.prompt(sample)
    return list(weaver.model.render(Prompt(question=sample.question())).ids)


def _answer_ids(weaver: Weaver, experience: Experience) -> list[int]:
    if experience.sample.kind == "ranking":
        return []
    tokenizer = weaver.model.tokenizer
    return list(tokenizer(experience.output, add_special_tokens=False)["input_ids"])
