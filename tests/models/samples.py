"""Prompts for the tests of backbones."""

from expbench.core import Kind, Prompt, Question

WORDS = "a fox sees seven green pears and counts them twice before noon while owls sleep".split()


def prompt(
    number: int,
    *,
    words: int = 6,
    max_tokens: int = 24,
    stop: tuple[str, ...] = (),
    context: str = "",
    shots: tuple[tuple[str, str], ...] = (),
    kind: Kind = "math",
) -> Prompt:
    """Make a question whose text depends on its number."""
    text = " ".join(WORDS[(number * 5 + i * (number + 1)) % len(WORDS)] for i in range(words))
    question = Question(
        id=f"q{number}",
        task="toy",
        kind=kind,
        input=text,
        prompt=f"{text}?",
        max_tokens=max_tokens,
        stop=stop,
    )
    return Prompt(question=question, context=context, shots=shots)


def mixed(count: int) -> list[Prompt]:
    """Make prompts of very different lengths and limits."""
    return [prompt(i, words=1 + (i * 7) % 19, max_tokens=5 + (i * 11) % 40) for i in range(count)]
