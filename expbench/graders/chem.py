"""Yes or No about a molecule: what the reply finally says.

The order of evidence: a box or `<answer>` block; the last "Answer: ..." statement; the word itself
at the start of a sentence or in a short reply; a statement of the asked property ("it does not
cross the barrier"). A reply that says both, neither, or that it cannot tell gives no answer.
"""

import re
from typing import Literal

from expbench.core import Output, Sample, Score
from expbench.errors import GradingError
from expbench.graders.reply import (
    MAX_CLAUSE,
    MAX_STATEMENTS,
    drafts,
    graded_part,
    marked_answer,
)

YesNo = Literal["Yes", "No"]

_TEMPLATE = re.compile(r"[(\[]?\b(?:yes\s*(?:/|\||or)\s*no|no\s*(?:/|\||or)\s*yes)\b[)\]]?", re.I)
_WORD = re.compile(r"\b(?:(yes|yeah|yep)|(no|nope))\b(?![-']|\s+(?:more|less|longer)\b)", re.I)
_CUE = re.compile(
    r"\b(?:answer|conclusion|verdict|prediction|response)\b[^.\n:=：]{0,40}?(?:\b(?:is|are)\b|[:=：])"
    r"|####",
    re.I,
)
_SENTENCE_END = re.compile(r"[.!?;](?=\s|$)|\n")
_LEADING = re.compile(
    r"(?:[\s:=,\-]|(?:so|therefore|thus|hence|clearly|simply|definitely|and)\b)*+", re.I
)
_STATED = re.compile(r"\s*+(?:[.!,:()\-–—]|$|(?:it|this|the|because|since)\b)", re.I)
_SPEAKER = re.compile(r"^(?:A|Assistant)\s?:\s?")
_MAX_WORDS = 8
"""Longest reply in which the word counts anywhere: "I would say no"."""
_MARKUP = re.compile(r"\\(?:text|textbf|mathrm|boxed|fbox)\s{0,4}\{|\\[()\[\]]|[*_`\"$“”{}]")
_NEGATION = re.compile(
    r"\b(?:not|never|no|non|neither|nor|cannot|lacks?|without|fails?(?: to)?|unlikely|unable|"
    r"incapable|absence of|free of|poorly|low)\b|n't\b",
    re.I,
)
_UNSURE = re.compile(
    r"\b(?:cannot|can't|could not|couldn't|unable to|difficult to|hard to|impossible to|"
    r"not possible to|do not|don't|did not) "
    r"(?:be )?(?:determin|say|tell|know|predict|conclude|answer|assess)\w*"
    r"|\b(?:unclear|unknown|uncertain|unsure|not (?:sure|clear|certain|known)|whether|depends|"
    r"may or may not|might or might not|if it|if the)\b",
    re.I,
)
_SUBJECT = re.compile(
    r"^.*?\b(?:molecule|compound|drug|substance|chemical|it|structure)\b\s+(?:be\s+|an?\s+|the\s+)*"
    r"([a-z][a-z-]{2,})",
    re.I | re.S,
)
_FALLBACK = ("activ", "toxi", "cross", "penetrat", "inhibit", "block", "permea", "absor", "mutagen")


def grade_chem(sample: Sample, output: Output) -> Score:
    """Score 1 for the right word, else 0; an unreadable reply gives no answer and 0.

    Args:
        sample: `target[0]` is `Yes` or `No`; `input` is the question.
        output: The reply.

    Raises:
        GradingError: another target.
    """
    target = sample.target[0] if sample.target else ""
    if target not in ("Yes", "No"):
        raise GradingError(f"Sample {sample.id!r} has target {target!r}; it must be Yes or No.")
    answer = read_yes_no(output.text, sample.input)
    if answer is None:
        return Score(value=0.0, explanation="Neither Yes nor No was stated.")
    return Score(
        value=float(answer == target), answer=answer, explanation=f"{answer}, wanted {target}."
    )


def read_yes_no(text: str, question: str = "") -> YesNo | None:
    """Read whether a reply says Yes or No.

    Args:
        text: The reply.
        question: The question; its predicate ("Does this molecule cross ...") is what a reply
            without the words Yes and No has to state or deny.

    >>> read_yes_no("Answer (Yes/No): No"), read_yes_no("Yes. On reflection, the answer is no.")
    ('No', 'No')
    >>> asked = "Is this molecule active against the hERG channel?"
    >>> read_yes_no("Inactive", asked), read_yes_no("It may be active.", asked)
    ('No', 'Yes')
    >>> read_yes_no("It is unclear whether it is active.", asked)
    """
    for draft in reversed(drafts(graded_part(text))):
        marked = marked_answer(draft)
        if marked is not None:
            return _statement(_plain(marked), question)
        plain = _plain(draft)
        for cue in reversed(list(_CUE.finditer(plain))[-MAX_STATEMENTS:]):
            said = _statement(_sentence(plain, cue.end()), question)
            if said is not None:
                return said
        short = _statement(plain, question) if len(plain.split()) <= _MAX_WORDS else None
        said = _words(plain) or short or _property(plain, question)
        if said is not None:
            return said
    return None


def _plain(text: str) -> str:
    """Remove markup and the repeated template "Yes/No"."""
    plain = _TEMPLATE.sub(" ", _MARKUP.sub("", text.replace("’", "'"))).strip()
    return _SPEAKER.sub("", plain)


def _sentence(text: str, start: int) -> str:
    """Cut out the sentence that starts here."""
    start = _LEADING.match(text, start).end()  # type: ignore[union-attr]
    stop = min(len(text), start + MAX_CLAUSE)
    end = _SENTENCE_END.search(text, start, stop)
    return text[start : end.start() if end else stop].strip()


def _statement(sentence: str, question: str) -> YesNo | None:
    """Read one committed sentence: the word it begins with or alone contains, or a property."""
    # "No evidence" begins with a determiner, not with the answer.
    words = [
        w for w in _WORD.finditer(sentence[:MAX_CLAUSE]) if w[1] or _STATED.match(sentence, w.end())
    ]
    said = {_polarity(word) for word in words}
    if words and words[0].start() == 0 and not re.match(r"\w+\s+and\s+no\b", sentence, re.I):
        return _polarity(words[0])
    if len(said) == 1 and not re.search(r"\bnot\b|\bneither\b|n't\b", sentence[: words[0].start()]):
        stated = _property(sentence, question)
        return stated or _polarity(words[0])
    return None if words else _property(sentence, question)


def _polarity(word: re.Match[str]) -> YesNo:
    return "Yes" if word[1] else "No"


def _words(text: str) -> YesNo | None:
    """Read sentences that begin with the word; None if they disagree or there is none."""
    said: set[YesNo] = set()
    for sentence in _SENTENCE_END.split(text):
        start = _LEADING.match(sentence).end()  # type: ignore[union-attr]
        word = _WORD.match(sentence, start)
        if word and _STATED.match(sentence, word.end()):
            said.add(_polarity(word))
    return said.pop() if len(said) == 1 else None


def _property(text: str, question: str) -> YesNo | None:
    """Read the last sentence that states or denies the property asked for."""
    asked = _SUBJECT.match(question)
    stems = (_stem(asked[1]),) if asked else _FALLBACK
    stem = "|".join(map(re.escape, stems))
    claim = re.compile(rf"\b(?P<no>in|non-?|un|im)?(?:{stem})[a-z]*\b", re.I)
    for sentence in reversed(_SENTENCE_END.split(text)):
        found = claim.search(sentence[:MAX_CLAUSE])
        if found:
            before = sentence[: found.start()]
            if _UNSURE.search(sentence):
                return None
            negations = len(_NEGATION.findall(before)) + bool(found["no"])
            return "No" if negations % 2 else "Yes"
    return None


def _stem(word: str) -> str:
    """Cut the ending of a verb or adjective, so that "crosses" matches "cross"."""
    word = word.casefold()
    return re.sub(r"(?:e|es|ed|ing|s|able|ible)$", "", word) if len(word) > 5 else word
