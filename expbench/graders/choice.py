"""Multiple choice: the one label a reply commits to, or none.

The order of evidence: a box or `<answer>` block; the last statement ("the answer is B", "B is
correct"); a line that is an answer by itself; a short reply with one label or one option's text.
No label, or more than one, is no answer. A label outside these places is never picked up, so the
article "a", the pronoun "I" and letters inside words are harmless.
"""

import re
from collections.abc import Sequence

from expbench.core import Output, Sample, Score
from expbench.errors import GradingError
from expbench.graders.choice_menu import MARK as _M
from expbench.graders.choice_menu import Menu, menu_of, plain
from expbench.graders.reply import (
    MAX_CLAUSE,
    MAX_STATEMENTS,
    drafts,
    graded_part,
    marked_answer,
)

_AND = r"(?:\s*(?:[,/&、]|\band\b|\bor\b|\bnor\b|\bund\b|\boder\b|和|或)\s*)+"
_LIST = rf"(?:(?:options?|choices?|answers?|both|either)\s+)?{_M}(?:{_AND}{_M})*"
_REJECTED = re.compile(
    rf"(?:\bnot\b|n't\b|\bnever\b|\bneither\b|\bexcept\b|\bexclud\w+|\beliminat\w+|\bruling out\b|"
    rf"\brul(?:es?|ed) out\b|\breject\w*|\brather than\b|\binstead of\b|\bunlike\b|\bover\b|"
    rf"\bthan\b|\bwithout\b|不是|nicht\b)\s*(?:(?:be|the|is|just|only)\s+)?{_LIST}"
    rf"|{_LIST}\s*(?:(?:is|are|was|were|being|can be|both|all)\s+)*(?:not\b|n't\b|isn't\b|aren't\b|"
    rf"wasn't\b|excluded|eliminated|ruled out|wrong|incorrect|out\b|false|discarded|impossible|"
    rf"rejected|tempting|fails?\b|不|错)",
    re.I,
)
_JOINED = re.compile(rf"{_M}(?:\s+|{_AND}(?:(?:possibly|maybe|perhaps|also|even)\s+)?){_M}", re.I)
_LEADS = re.compile(rf"{_M}(?:[.)]\s+[A-Z]|\s?[,;]|\s+(?:because|since)\b)")
_CUE = re.compile(
    r"\b(?:answers?|choice|option|pick|selection|antwort|lösung|respuesta|réponse|risposta|"
    r"resposta|ответ)\b(?P<words>[^.\n:=：]{0,40}?)"
    r"(?:(?:\b(?:is|are|was|be|ist|es|est|è)\b|[:=：])(?!\s*(?:not|never)\b(?!.{0,20}\bbut\b)))"
    r"|(?:答案|答え|正解|选项|選項|정답)(?:应该|應該)?\s*(?:[是為为はは]|[:：])"
    r"|\bI(?:'d|’d|'ll| would| will| must| therefore)*\s+(?:choose|pick|select|go with|opt for)\b"
    r"|\bleav(?:es|ing)\b(?: us with| only)?"
    r"|####",
    re.I,
)
_CONFIRMED = re.compile(
    r"\b(?:is|must be|seems|was|would be|ist)\s+(?:the\s+|clearly\s+|only\s+|most\s+){0,3}"
    r"(?:correct|right|best|true|appropriate|answer|richtig)\b"
    r"|(?<!不)(?:是对的|是對的|是正确|是正確|正确|正確)",
    re.I,
)
_FILLER = re.compile(
    r"(?:[\s:：=\-]|(?:option|choice|letter|label|number|clearly|definitely|therefore|simply|"
    r"probably|most likely|indeed|thus|now|be)\b(?!\s*[.:]))*+",
    re.I,
)
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|[。！？；\n]")
_COMMENT = re.compile(r"\b(?:because|since|as|while|whereas|although|but|weil)\b", re.I)
_MAX_WORDS = 10
"""Longest reply in which a single label counts without any cue."""
_MAX_NAMED = 300
"""Longest reply in which the text of one option counts without any cue."""


def grade_choice(sample: Sample, output: Output) -> Score:
    """Score 1 for the right label, else 0; no readable label gives no answer and 0.

    Args:
        sample: `labels` and `choices` in the same order; `target[0]` is a label.
        output: The reply.

    Raises:
        GradingError: the target is no label of the sample.
    """
    target = sample.target[0] if sample.target else ""
    if target not in sample.labels or len(sample.labels) != len(sample.choices):
        raise GradingError(
            f"Sample {sample.id!r} has target {target!r} and labels {', '.join(sample.labels)} for "
            f"{len(sample.choices)} choices; the target must be one of the labels."
        )
    answer = read_choice(output.text, sample.labels, sample.choices)
    if answer is None:
        return Score(value=0.0, explanation="No single label was chosen.")
    return Score(
        value=float(answer == target), answer=answer, explanation=f"{answer}, wanted {target}."
    )


def read_choice(text: str, labels: Sequence[str], choices: Sequence[str]) -> str | None:
    """Read the one label that a reply chooses; None for none or several.

    >>> gases = ("oxygen", "nitrogen", "argon", "helium")
    >>> for reply in "**Answer: B) nitrogen**", "Not C but B.", "A or C", "Answer: nitrogen":
    ...     print(read_choice(reply, "ABCD", gases))
    B
    B
    None
    B
    """
    menu = menu_of(tuple(labels), tuple(choices))
    part = plain(graded_part(text))
    for draft in reversed(drafts(graded_part(text))):
        marked = marked_answer(draft)
        if marked is not None:
            return _single(_statement(plain(marked), menu))
        stated = _last_statement(plain(draft), menu)
        if stated is not None:
            return _single(stated)
    for read in (_label_line, _option_line, _short_reply, _named_option):
        found = _single(read(part, menu))
        if found is not None:
            return found
    return None


def _single(found: set[str] | None) -> str | None:
    """Turn exactly one label into the answer."""
    return next(iter(found)) if found and len(found) == 1 else None


def _last_statement(text: str, menu: Menu) -> set[str] | None:
    """Read the last statement that names labels or options; None where none does."""
    ends = [(cue.end(), False) for cue in _CUE.finditer(text)]
    ends += [(cue.start(), True) for cue in _CONFIRMED.finditer(text)]
    for position, backwards in sorted(ends, reverse=True)[:MAX_STATEMENTS]:
        clause = _clause_before(text, position) if backwards else _clause_after(text, position)
        found = _statement(clause, menu)
        if found:
            return found
    return None


def _clause_after(text: str, position: int) -> str:
    """Cut out the sentence that starts here, without filler words."""
    filler = _FILLER.match(text, position)
    start = filler.end() if filler else position
    stop = min(len(text), start + MAX_CLAUSE)
    end = _SENTENCE_END.search(text, start, stop)
    return text[start : end.start() if end else stop].strip()


def _clause_before(text: str, position: int) -> str:
    """Cut out the sentence so far; nothing if it only supposes."""
    window = text[max(0, position - 200) : position]
    clause = _SENTENCE_END.split(window)[-1].rpartition(",")[2].strip()
    return "" if re.match(r"(?:if|whether|suppose|assum\w+|when)\b", clause, re.I) else clause


def _statement(clause: str, menu: Menu) -> set[str]:
    """Read the labels that one statement picks, after those it rejects are gone."""
    clause = clause[:MAX_CLAUSE].strip()
    exact = menu.with_text(clause)
    if exact and not menu.marks(menu.mark(clause)[:1]):
        return exact
    marked = menu.mark(clause)
    kept = _REJECTED.sub(" ", marked)
    if kept[:1] == marked[:1] and menu.marks(marked[:1]):
        joined = _JOINED.match(kept)
        return menu.marks(joined[0]) if joined else menu.marks(kept[0])
    # Labels inside an option's own text ("vitamin C") are not picks.
    bare = menu.mark(_without_names(clause, menu))
    picks = menu.marks(_REJECTED.sub(" ", bare))
    if len(picks) > 1:
        picks = menu.marks(_COMMENT.split(_REJECTED.sub(" ", bare))[0]) or picks
    return picks or _named(clause, menu)


def _without_names(clause: str, menu: Menu) -> str:
    """Blank out the texts of options."""
    folded = clause.casefold()
    if len(folded) != len(clause):
        return clause
    for match in menu.named.finditer(folded):
        clause = clause[: match.start()] + " " * len(match[0]) + clause[match.end() :]
    return clause


def _named(clause: str, menu: Menu) -> set[str]:
    """Read the labels of the options whose text stands in a clause and is not denied there."""
    folded = re.sub(r"\s+", " ", clause.casefold())
    found: set[str] = set()
    for match in menu.named.finditer(folded):
        before = folded[max(0, match.start() - 20) : match.start()]
        if not re.search(
            r"\b(?:not|never|neither|nor|than|of|except)\b[\w\s]*$|n't[\w\s]*$", before
        ):
            found |= menu.with_text(match[0])
    return found


def _label_line(text: str, menu: Menu) -> set[str]:
    """Read lines that are nothing but a label, such as `(b)`."""
    lines = {line.strip(" .,:;!()[]<>").casefold() for line in text.splitlines()}
    return {label for label in menu.labels if label.casefold() in lines}


def _option_line(text: str, menu: Menu) -> set[str]:
    """Read lines that are a label with its option text, or a first line that begins `B.`, `B,`."""
    found: set[str] = set()
    for i, line in enumerate(filter(None, map(str.strip, text.splitlines()))):
        marked = menu.mark(line)
        label = menu.marks(marked[:1])
        rest = marked[1:].lstrip(" )].:,-")
        own = bool(label & menu.with_text(rest)) if label else False
        leads = i == 0 and _LEADS.match(marked)
        if label and (own or (leads and not _REJECTED.match(marked))):
            found |= label
    return found


def _short_reply(text: str, menu: Menu) -> set[str]:
    """Read a short reply without a cue: "It's B.", or a last sentence such as "So (d)."."""
    last = _SENTENCE_END.split(text.rstrip(" .!\n"))[-1].strip()
    if last != text.rstrip(" .!\n") and not re.match(r"(?:so|thus|hence|therefore)\b", last, re.I):
        return set()
    if len(last.split()) > _MAX_WORDS or re.match(r"[A-Z]\s*:", last):
        return set()
    return _statement(last, menu)


def _named_option(text: str, menu: Menu) -> set[str]:
    """Read the only option whose text stands in a reply of a sentence or two."""
    return _named(text, menu) if len(text) <= _MAX_NAMED else set()
