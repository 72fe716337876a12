"""Which part of a model's reply is graded; shared by all kinds of answer.

Four conventions, in this order:

1. Text up to a closing reasoning tag is not graded; reasoning that never closes gives no answer.
2. Text after an invented next question ("Question:", "Human:" ... at the start of a line) is
   ignored. A reply may open with the question itself, or with a lead-in that ends in a colon.
3. The last `<answer>` block is the submission; one that never closes is none.
4. "Wait", "Actually", "On reflection" at the start of a sentence take back what stands before, if
   an answer follows.

Every function is linear in the length of the text.
"""

import re
from itertools import pairwise

MAX_GRADED = 100_000
"""Characters that are read, from the end: far more than any task lets a model write."""
MAX_STATEMENTS = 50
"""Statements with a cue ("the answer is") that are tried, from the last one backwards."""
MAX_CLAUSE = 500
"""Characters of one statement."""

_OPEN = re.compile(r"<(?:think|thinking|thought|reasoning)>|\[THINK\]|◁think▷", re.I)
_CLOSE = re.compile(r"</(?:think|thinking|thought|reasoning)>|\[/THINK\]|◁/think▷", re.I)
_NEXT_QUESTION = re.compile(
    r"^[ \t>#*_]*+(?:(?:next|new|another) )?"
    r"(?:question|q|problem|human|user|instruction|frage|pregunta|问题|题目|問題)"
    r"[ \t]{0,4}\d{0,4}[*_]{0,3}[ \t]{0,4}[:：]",
    re.I | re.M,
)
_BRACE = re.compile(r"\\(?:boxed|fbox)\s{0,8}\{|\\[{}]|[{}]")
_ANSWER_TAG = re.compile(r"<(/?)answer>", re.I)
_RETRACTION = re.compile(
    r"(?:^|[.!?;\n])[ \t*]*+(?:(?:no|oh|hmm|but),? )?"
    r"(?:wait|actually|hold on|correction|scratch that|sorry|let me (?:correct|redo|reconsider)|"
    r"on (?:second thoughts?|reflection|checking|closer inspection))\b",
    re.I | re.M,
)


def graded_part(text: str) -> str:
    r"""Cut a reply down to what may hold the answer; empty where nothing does.

    >>> graded_part("<think>10?</think> It is 12.\nQuestion: What is 2+2?\nAnswer: 4")
    'It is 12.'
    >>> graded_part("<think>It is 12, let me check the")
    ''
    """
    start = 0
    for close in _CLOSE.finditer(text):
        start = close.end()
    if _OPEN.search(text, start):
        return ""
    rest = text[start:].strip()
    for question in _NEXT_QUESTION.finditer(rest):
        before = rest[max(0, question.start() - 80) : question.start()].strip(" \t\r\n*_#>-")
        if before and before[-1] not in ":：":
            rest = rest[: question.start()].strip()
            break
    return rest[-MAX_GRADED:]


def marked_answer(text: str) -> str | None:
    r"""Return the content of the last `<answer>` block, or of the last box in or after it.

    Returns:
        None where neither is there; empty where the last one never closes, or says nothing.

    >>> marked_answer("<answer>5</answer> No. <answer>6</answer> Done.")
    '6'
    >>> marked_answer(r"\boxed{\frac{3}{8}} or \fbox{9}"), marked_answer(r"\boxed{12")
    ('9', '')
    """
    start, block, end = None, None, 0
    for tag in _ANSWER_TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start is not None:
            block, end, start = text[start : tag.start()], tag.end(), None
    if start is not None:
        return ""
    boxed = _last_box(text[end:])
    if boxed is None and block is not None:
        boxed = _last_box(block)
    return (block.strip() if block is not None else None) if boxed is None else boxed


def drafts(text: str) -> list[str]:
    """Split at every retraction: the last element that holds an answer is the one that counts.

    >>> drafts("The answer is 5. Wait, I forgot one. The answer is 6.")
    ['The answer is 5', '. Wait, I forgot one. The answer is 6.']
    """
    starts = [0, *(match.start() for match in _RETRACTION.finditer(text)), len(text)]
    return [text[a:b] for a, b in pairwise(starts) if b > a]


def _last_box(text: str) -> str | None:
    """Return the content of the last box that holds something; empty if the last never closes."""
    opened: list[int | None] = []
    last: tuple[int, int] | None = None
    for token in _BRACE.finditer(text):
        if token[0] == "{":
            opened.append(None)
        elif token[0][-1] == "{" and token[0] != r"\{":
            opened.append(token.end())
        elif token[0] == "}" and opened:
            start = opened.pop()
            if start is not None and re.search(r"[\w∞√]", text[start : token.start()]):
                last = start, token.start()
    unclosed = [start for start in opened if start is not None]
    if unclosed and (last is None or unclosed[-1] > last[0]):
        return ""
    return text[last[0] : last[1]] if last else None
