"""A policy that writes what a script says, through the real stop rules, for tests of dialogues."""

from collections.abc import Callable, Sequence
from typing import Any

from expbench.core import Experience, Sample, Score
from expbench.models.decoding import Completion, Request, Row
from expbench.models.hf import HFModel

END = "<eos>"
Script = Callable[[Request], str]


def scripted(model: HFModel, script: Script) -> list[Request]:
    """Let a model write what the script says, and keep every request.

    Where the script's text ends without the end token the policy rambles on.
    """
    seen: list[Request] = []

    def generate_ids(
        requests: Sequence[Request], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Completion]:
        done = []
        for request in requests:
            model.check_fits(len(request.ids), request.max_tokens, request.key)
            seen.append(request)
            row = Row(request=request, tokenizer=model.tokenizer, eos_ids=model.eos_ids, rng=None)
            ids = model.tokenizer(script(request), add_special_tokens=False)["input_ids"]
            waiting = iter([*ids, *model.tokenizer("." * request.max_tokens)["input_ids"][1:]])
            while row.stop_reason is None and not row.push(next(waiting)):
                pass
            done.append(row.completion())
        return done

    model.generate_ids = generate_ids  # type: ignore[method-assign]
    return seen


def by_turn(*turns: str) -> Script:
    """Write the n-th text in the n-th turn of every answer, and then nothing."""

    def script(request: Request) -> str:
        number = int(request.key.rpartition("/turn")[2])
        return turns[number] if number < len(turns) else END

    return script


def read(model: HFModel, ids: Sequence[int]) -> str:
    """Return what a context says, control tokens included."""
    return str(model.tokenizer.decode(list(ids)))


def sample(number: int, *, task: str = "toy", **changes: Any) -> Sample:
    values: dict[str, Any] = {
        "id": str(number), "task": task, "kind": "math", "input": f"Task number {number}.",
        "prompt": f"Q{number}", "target": ("1",), "max_tokens": 200,
    }  # fmt: skip
    return Sample(**{**values, **changes})


def note(number: int, summary: str, **changes: Any) -> Experience:
    """Return an experience made at sample `number` with this summary."""
    return Experience(
        sample=sample(number, **changes), output="", score=Score(value=1.0), summary=summary
    )
