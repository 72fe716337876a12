r"""Mathematical answers: what the reply commits to, compared with the reference by exact value.

The answer is the last complete `\boxed{}` or `\fbox{}`, or `<answer>` block, whichever comes later;
else the last statement ("the answer is ...", "Answer: ...", "#### ..."); else the value after the
last equals sign, or the last number. A box that never closes gives no answer. Plain numbers are
compared here; other expressions go to math-verify in processes that can be killed.
"""

import re
import time

from expbench.core import Output, Sample, Score
from expbench.errors import GradingError
from expbench.graders import math_pool
from expbench.graders.math_equal import equivalent
from expbench.graders.math_text import MAX_LENGTH, is_huge
from expbench.graders.reply import MAX_STATEMENTS, drafts, graded_part, marked_answer

DEADLINE_SECONDS = 5.0
"""Longest computer algebra for one answer."""

_CUE = re.compile(
    r"####|\b(?:answer|solution|result)s?\b"
    r"(?:(?P<words>[^.\n:=#]{0,40}?)\b(?:is|are|be)\b|(?: ?\([^()\n]{0,30}\))?[ *_]{0,4}[:=：])"
    r"|答案(?:是|为|為)?[:：]?",
    re.I,
)
_FILLER = re.compile(
    r"(?:[\s:：=*_`~\"]|####|(?:therefore|thus|simply|just|exactly|about|approximately|around|"
    r"clearly|indeed|equal to|equals|given by|obtained as|the number|the value|is|now)\b,?)*+",
    re.I,
)
_CLAUSE_END = re.compile(
    r"[.;!?](?=\s|[*_\"]|$)|\n|,\s+(?=[A-Za-z]{2})|\s(?:because|since|so|which|where|when|after)\b"
)
_NUMBER = re.compile(r"(?<![\w.,/^])[-−+]?\s?[$€£¥₹]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\w^])")
_VALUE_START = re.compile(r"[-−+±(\[{$€£¥₹√π∞\\]|\.?\d|[A-Za-z](?:[\s^*/+=(_<>-]|$)")
_SHORT_WORDS = re.compile(
    r"(?!(?:let|we|i|to|first|the|she|he|it|they|step|in)\b)\S+(?: \S+){0,2}$", re.I
)
_QUANTITY = re.compile(
    r"([-−+]?\s?[$€£¥₹]?\s?\d[\d,]*(?:\.\d+)?(?:\s?/\s?\d+|\s\d+/\d+)?\s?%?"
    r"(?:\s(?:hundred|thousand|million|billion|trillion)\b)?)"
    r"\s(?=[A-Za-z][\w&]|a\s)"
    r"(?!.*(?:[\\^=+*_]|\b(?:and|or|to|plus|minus|times|over|mod|remainder)\s\S?\d|,\s\S?\d))"
)
"""An amount and what it counts ("$18 every day at the market"); not two amounts, not a formula."""
_CALCULATOR = re.compile(r"<<[^<>\n]{0,200}>>")
"""GSM8K's calculator notes, as in "3*4 = <<3*4=12>>12", which models copy."""
_REFUSAL = re.compile(
    r"\b(?:(?:do not|don't|did not|cannot|can't|could not|couldn't|not) "
    r"(?:know|knowable|determine|be determined|solve|answer|find|work|sure|enough|possible|say)|"
    r"unable|unknown|undetermined|insufficient|impossible to|i give up)\b",
    re.I,
)


def grade_math(sample: Sample, output: Output) -> Score:
    """Score 1 for an answer equal in value to the reference, else 0.

    A comparison that needs too long or too much memory scores 0 and says `timeout` or `refused`.

    Args:
        sample: `target[0]` is the reference: a number or LaTeX.
        output: The reply; in one cut off at the token limit only complete statements count.

    Raises:
        GradingError: there is no reference, or the comparing process cannot start or crashed.
    """
    reference = sample.target[0].strip() if sample.target else ""
    if not reference:
        raise GradingError(f"Sample {sample.id!r} has no reference answer.")
    answer = read_math(output.text, complete=output.stop_reason != "length")
    if answer is None:
        return Score(value=0.0, explanation="No final answer was found.")
    if len(answer) > max(MAX_LENGTH, len(reference)):
        return Score(value=0.0, answer=answer[:80], explanation="refused: too long for an answer.")
    comparison = compare(reference, answer)
    verdict = "Equal to" if comparison.equal else "Differs from"
    return Score(
        value=float(comparison.equal),
        answer=answer,
        explanation=comparison.trouble or f"{verdict} the reference {reference[:200]}.",
    )


def compare(reference: str, answer: str) -> math_pool.Comparison:
    r"""Compare two values within `DEADLINE_SECONDS`.

    >>> compare("385", r"\$385.00").equal, compare("9", r"(10^{9})!").trouble
    (True, 'refused: the number is too large to compute')
    """
    end = time.monotonic() + DEADLINE_SECONDS
    troubles: list[str] = []

    def leaf_equal(gold: str, given: str) -> bool:
        if troubles:
            return False
        if is_huge(given) or is_huge(gold):
            troubles.append("refused: the number is too large to compute")
            return False
        left = end - time.monotonic()
        verdict = math_pool.compare(gold, given, seconds=max(left, 0.1))
        if verdict.trouble:
            troubles.append(verdict.trouble)
        return verdict.equal

    equal = equivalent(reference, answer, leaf_equal)
    return math_pool.Comparison(equal, "" if equal or not troubles else troubles[0])


def read_math(text: str, *, complete: bool = True) -> str | None:
    r"""Read the answer a reply commits to, as the model wrote it.

    Args:
        text: The whole reply.
        complete: The model ended by itself; otherwise the last word may be half a number, and
            only a closed box or block, or a statement followed by more text, is an answer.

    >>> read_math(r"\boxed{1}, no: \boxed{\frac{3}{8}}"), read_math("So it is \\boxed{12")
    ('\\frac{3}{8}', None)
    >>> read_math("16 - 3 = 13, and 13 - 4 = 9 eggs."), read_math("I do not know.")
    ('9', None)
    """
    part = _CALCULATOR.sub("", graded_part(text))
    for draft in reversed(drafts(part)):
        answer = _explicit(draft, complete=complete)
        if answer is not None:
            return answer.strip() or None
    return _implied(part) if complete else None


def _explicit(text: str, *, complete: bool) -> str | None:
    """Find a box, block or statement; empty for one that never closes, None where there is none."""
    marked = marked_answer(text)
    if marked is not None:
        return marked if _VALUE_START.match(marked) else _last_statement(marked) or marked
    return _last_statement(text if complete else re.sub(r"\S+$", "", text))


def _last_statement(text: str) -> str | None:
    """Return what the last readable statement says; empty where it refuses to answer."""
    for cue in reversed(list(_CUE.finditer(text))[-MAX_STATEMENTS:]):
        clause = _clause(text, cue.end())
        if re.search(r"\b(?:not|n't|never)\b", cue["words"] or "") or clause.startswith("not "):
            continue
        if _REFUSAL.search(clause):
            return ""
        if _VALUE_START.match(clause) or _SHORT_WORDS.match(clause):
            return _last_side(clause)
        numbers = _NUMBER.findall(clause)
        if len(numbers) == 1 and cue[0] != "#":
            return _amount(clause[clause.index(numbers[0]) :].strip())
    return None


def _clause(text: str, start: int) -> str:
    """Cut out the clause that starts here, without filler words and markup."""
    filler = _FILLER.match(text, start)
    start = filler.end() if filler else start
    stop = min(len(text), start + MAX_LENGTH)
    end = _CLAUSE_END.search(text, start, stop)
    return text[start : end.start() if end else stop].strip(" \t*_`\"'")


def _amount(clause: str) -> str:
    """Keep the amount of a clause that says how much of what."""
    amount = _QUANTITY.match(clause)
    return amount[1] if amount else clause


def _last_side(clause: str) -> str:
    """Take what follows the last equals sign of a worked-out sum."""
    side = clause if "," in clause else clause.rpartition("=")[2].strip()
    return _amount(side or clause)


def _implied(text: str) -> str | None:
    """Read the value after the last equals sign, or the last number, of the last sentence with one.

    A refusal behind it leaves no answer.
    """
    last = max(_NUMBER.finditer(text), key=re.Match.start, default=None)
    equals = max(text.rfind("="), text.rfind(r"\approx"))
    start = max(text.rfind(mark, 0, last.start() if last else len(text)) for mark in ("\n", ". "))
    if equals > start:
        clause = _clause(text, equals + (1 if text[equals] == "=" else 7))
        # "= 8 legs after 15 days" is 8; "= 8 legs, which makes 15" goes on to 15.
        within = last is None or not re.search(r"[,;\n]\s|\. ", text[equals : last.start()])
        if _VALUE_START.match(clause) and within and not _REFUSAL.search(text, equals):
            return _amount(clause)
    denied = last and re.search(r"(?:\bnot|n't)\s+(?:be )?$", text[: last.start()][-20:])
    if last is None or denied or _REFUSAL.search(text, last.end()):
        return None
    return last[0].strip()
