"""Worker process that compares two LaTeX expressions with math-verify; started by `math_pool`.

It is run as a file, not imported, and needs only math-verify. Protocol, one JSON object a line: it
writes `{}` when it is ready; then it reads `{"gold": ..., "answer": ..., "seconds": ...}` and
writes `{"equal": true}`, `{"equal": false}`, or `{"refused": "reason"}` where it could not finish.
"""

import json
import logging
import signal
import sys
from itertools import chain
from typing import Any, TextIO

try:
    import resource
except ImportError:  # Windows has no resource limits; the parent's deadline still holds there.
    resource = None  # type: ignore[assignment]

MEMORY_BYTES = 2 * 1024**3
"""Address space of a worker: math-verify itself takes about 0.4 GiB."""
GUARD_DIGITS = 20
"""Decimals beyond the written ones to which a decimal number must agree with an exact one."""


def parse(text: str) -> list[Any]:
    """Read one expression: the whole text or nothing, never a number found inside it."""
    from math_verify import LatexExtractionConfig, parse

    found: list[Any] = parse(
        f"${text}$",
        extraction_config=[LatexExtractionConfig()],
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,
    )
    return found


def differ_in_value(gold: Any, answer: Any, digits: int) -> bool:
    """Tell whether two numbers that math-verify calls equal agree only up to rounding.

    A decimal of `digits` characters that equals an exact number agrees with it in any further
    digit; one that was rounded does not.
    """
    from sympy import Expr, nsimplify  # type: ignore[import-untyped]

    if not (isinstance(gold, Expr) and isinstance(answer, Expr)):
        return False
    difference = nsimplify(gold, rational=True) - nsimplify(answer, rational=True)
    if difference.free_symbols:
        return False
    return bool(abs(difference.evalf(digits + 2 * GUARD_DIGITS)) > 10 ** -(digits + GUARD_DIGITS))


def equal(gold: str, answer: str) -> bool:
    """Compare two expressions exactly; what cannot be parsed equals nothing."""
    from math_verify import verify

    golds, answers = parse(gold), parse(answer)
    if not golds or not answers:
        return False
    # Gold comes first: verify is not symmetric. Its own time limit needs the main thread's alarm,
    # so it is off; the parent kills this process instead.
    if not verify(golds, answers, float_rounding=15, numeric_precision=30, timeout_seconds=None):
        return False
    decimal = "." in gold or "." in answer
    digits = len(gold) + len(answer)
    return not (decimal and differ_in_value(golds[0], answers[0], digits))


def limit_memory() -> None:
    """Cap the address space, so that a huge number ends in an error and not in swapping."""
    if resource is not None:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        soft = MEMORY_BYTES if hard == resource.RLIM_INFINITY else min(MEMORY_BYTES, hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def answer_request(line: str) -> dict[str, Any]:
    """Serve one request line."""
    request = json.loads(line)
    if hasattr(signal, "alarm"):
        # Ends this process even if the parent died and nobody enforces the deadline.
        signal.alarm(int(request["seconds"]) + 5)
    try:
        return {"equal": equal(request["gold"], request["answer"])}
    except Exception as error:
        # Sympy may raise anything on a model's text; that text is then not shown to be right.
        return {"refused": f"{type(error).__name__} while comparing"}
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)


def serve(requests: TextIO, replies: TextIO) -> None:
    """Answer requests until the parent closes the pipe."""
    limit_memory()
    logging.disable(logging.CRITICAL)
    # The first comparison loads sympy's printers and solvers: done here, it is not on the clock.
    ready = {} if equal(r"\sqrt{4x^2}", r"|2x|") else {"refused": "math-verify self-check failed"}
    for reply in chain([ready], map(answer_request, requests)):
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    serve(sys.stdin, sys.stdout)
