"""Answering: text is generated with fused states, candidates are ranked by them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from expbench.core import Output, Prompt, Question, Segment
from expbench.experience.bank import Memory
from expbench.models.decoding import Completion
from expbench.models.hf import output_of
from expbench_methods.expweaver.fusion import Explanation
from expbench_methods.expweaver.install import bypassed
from expbench_methods.expweaver.states import answer_states
from expbench_methods.expweaver.weaver import Weaver

Trace = tuple[Mapping[str, Any], ...]


def answer(weaver: Weaver, questions: Sequence[Question]) -> list[Output]:
    """Answer in the order given, with the bank that the configured control asks for."""
    done: dict[int, Output] = {}
    with weaver.controlled() as memory, weaver.policy.for_answers():
        for select, reply in ((False, _write), (True, _rank)):
            places = [i for i, q in enumerate(questions) if (q.kind == "ranking") == select]
            if places:
                outputs = reply(weaver, [questions[i] for i in places], memory)
                done.update(zip(places, outputs, strict=True))
    return [done[i] for i in range(len(questions))]


def _write(weaver: Weaver, questions: Sequence[Question], memory: Memory | None) -> list[Output]:
    prompts = [Prompt(question=question) for question in questions]
    pairs = weaver.model.complete(prompts, seed=weaver.seed)
    outputs = [output_of(*pair) for pair in pairs]
    if not weaver.config.trace or memory is None or not weaver.fusion.is_active:
        return outputs
    return [
        replace(output, trace=_trace(weaver, rendered.ids, completion, memory))
        for output, (rendered, completion) in zip(outputs, pairs, strict=True)
    ]


def _rank(weaver: Weaver, questions: Sequence[Question], memory: Memory | None) -> list[Output]:
    with torch.no_grad():
        rankings = weaver.scorer.rank(questions)
    outputs = []
    for question, order in zip(questions, rankings, strict=True):
        ids = weaver.scorer.prompt(question)
        titles = sum(weaver.scorer.count_tokens(title) for title in question.candidates)
        output = Output(
            ranking=tuple(order),
            stop_reason="none",
            # Encoded titles are counted for every question, although each is encoded only once.
            segments=(Segment(role="prompt", tokens=len(ids) + titles),),
        )
        if weaver.config.trace and memory is not None and weaver.fusion.is_active:
            nothing = Completion(ids=[], text="", stop_reason="stop")
            output = replace(output, trace=_trace(weaver, ids, nothing, memory))
        outputs.append(output)
    return outputs


def _trace(weaver: Weaver, prompt: Sequence[int], completion: Completion, memory: Memory) -> Trace:
    """Look again, by teacher forcing, at what each generated token retrieved."""
    with bypassed(weaver.model.module):
        states_TD = answer_states(weaver.model, [prompt], [completion.ids])[0]
    found_TK = None
    if weaver.config.frequency == "once":
        found_TK = weaver.fusion.retrieve(states_TD[:1]).expand(len(states_TD), -1)
    with torch.no_grad():
        seen = weaver.fusion.explain(states_TD, found_TK)
    tokens = [weaver.model.tokenizer.decode([token]) for token in completion.ids] or [""]
    lines = [_line(token, seen, row, memory) for row, token in enumerate(tokens)]
    touched = {entry_id for line in lines for entry_id in line["ids"]}
    about = {
        entry.id: {
            "task": entry.task,
            "sample_id": entry.sample_id,
            "reward": entry.reward,
            "step": entry.step,
            "summary": entry.summary,
        }
        for entry in memory.entries
        if entry.id in touched
    }
    return ({"kind": "bank", "entries": about}, *lines)


def _line(token: str, seen: Explanation, row: int, memory: Memory) -> dict[str, Any]:
    return {
        "token": token,
        "ids": [memory.ids[place] for place in seen.positions_TK[row].tolist()],
        "weights": [round(weight, 6) for weight in seen.weights_TK[row].tolist()],
        "gate": round(float(seen.gate_T[row]), 6),
    }
