"""A `Trace` in the terminal: coloured tokens, then the experiences that touched the answer most."""

import json
from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from expbench.report.trace import Answer, Token, Trace
from expbench.report.visible import visible

_CLOSED = (235, 244, 243)
_OPEN = (38, 166, 154)
_SUMMARY = 120
"""Characters of a summary that fit beside the numbers; the page shows all of it."""


def print_trace(
    trace: Trace, *, limit: int = 0, top: int = 10, console: Console | None = None
) -> None:
    """Print answers with their traces to standard output.

    Args:
        trace: what to show.
        limit: answers at most; 0 for all.
        top: experiences an answer at most.
        console: where to; default standard output.
    """
    console = console or Console(highlight=False)
    answers = trace.answers[:limit] if limit else trace.answers
    for answer in answers:
        console.print(
            Panel(
                Group(*_parts(answer, trace, top)),
                title=Text(answer.sample_id),
                subtitle=Text(_grade(answer)),
                title_align="left",
            )
        )
    if trace.widest_gate:
        console.print(_scale(trace.widest_gate))
    console.print(
        f"{len(answers)} shown of {len(trace.answers)} traced answers; run {trace.run_id}."
    )


def _grade(answer: Answer) -> str:
    if answer.score is None:
        return "error"
    return f"score {answer.score:.3f}"


def _parts(answer: Answer, trace: Trace, top: int) -> Iterator[RenderableType]:
    if answer.question:
        yield Text(answer.question + "\n", style="dim")
    if answer.tokens:
        yield _coloured(answer, trace.widest_gate)
        yield Text(
            f"\n{len(answer.tokens)} tokens, mean gate {answer.mean_gate:.3f}, "
            f"widest {_widest(answer)}\n"
        )
        yield _influences(answer, trace, top)
    else:
        yield Text(answer.text or "(empty)")
    for note in answer.notes:
        yield Text(visible(json.dumps(note, ensure_ascii=False)), style="cyan")


def _coloured(answer: Answer, widest: float) -> Text:
    text = Text()
    for token in answer.tokens:
        if not token.text:
            text.append(f"({token_name(answer, token)}) ", style=_style(token.gate, widest))
        else:
            text.append(token.text, style=_style(token.gate, widest))
    if len(answer.tokens) == 1 and not answer.tokens[0].text:
        text.append(answer.text)
    return text


def token_name(answer: Answer, token: Token) -> str:
    """Name a token for people; one without text is a state or a special token."""
    if token.text:
        return repr(token.text)
    return "the prompt's last state" if len(answer.tokens) == 1 else "no text"


def _style(gate: float, widest: float) -> str:
    """Fixed dark letters on a shade between closed and widest, readable on any terminal."""
    share = min(max(gate / widest, 0.0), 1.0) if widest > 0 else 0.0
    if share == 0.0:
        return ""
    red, green, blue = (round(a + (b - a) * share) for a, b in zip(_CLOSED, _OPEN, strict=True))
    return f"rgb(0,0,0) on rgb({red},{green},{blue})"


def _scale(widest: float) -> Text:
    text = Text("gate ")
    for step in range(1, 9):
        text.append(f" {widest * step / 8:.3f} ", style=_style(step / 8, 1.0))
    return text


def _widest(answer: Answer) -> str:
    place = max(range(len(answer.tokens)), key=lambda i: answer.tokens[i].gate)
    token = answer.tokens[place]
    return f"{token.gate:.3f} at token {place + 1}, {token_name(answer, token)}"


def _clipped(text: str) -> str:
    return text if len(text) <= _SUMMARY else text[: _SUMMARY - 1].rstrip() + "…"


def _influences(answer: Answer, trace: Trace, top: int) -> RenderableType:
    found = answer.influences()
    if not found:
        return Text("No experience was retrieved: the bank was empty or the gate bypassed.")
    table = Table(box=None, pad_edge=False, header_style="bold", title_justify="left")
    for name in ("weight x gate", "peak", "tokens", "reward"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("experience", overflow="fold")
    table.add_column("summary", overflow="fold", ratio=1)
    for influence in found[:top]:
        entry = trace.entries[influence.entry]
        table.add_row(
            f"{influence.mean:.4f}",
            f"{influence.peak:.4f}",
            str(influence.tokens),
            "-" if entry.reward is None else f"{entry.reward:g}",
            Text(entry.id if entry.id.startswith(entry.task) else f"{entry.task}: {entry.id}"),
            Text(_clipped(" ".join(entry.summary.split()))),
        )
    if len(found) > top:
        return Group(table, Text(f"and {len(found) - top} more", style="dim"))
    return table
