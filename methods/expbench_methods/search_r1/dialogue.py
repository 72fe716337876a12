"""The protocol in words: what the model is told, and how what it writes is read.

Only what the model wrote is ever read here, never what a search brought back. Every function is
total and linear in the length of the text. Tags are matched to the letter.
"""

import re

SEARCH, END_SEARCH = "<search>", "</search>"
ANSWER, END_ANSWER = "<answer>", "</answer>"
INFORMATION, END_INFORMATION = "\n<information>\n", "</information>\n"

_CALL = re.compile(r"<search>((?:(?!</?search>).)*)</search>", re.DOTALL)
_BLOCK = re.compile(r"<answer>((?:(?!</?answer>).)*)</answer>", re.DOTALL)
_TAG = re.compile(r"</?search>")


def instruction(max_turns: int) -> str:
    """Tell the model the protocol; the task's own words follow.

    >>> "at most 2 times" in instruction(2)
    True
    """
    times = "once" if max_turns == 1 else f"{max_turns} times"
    return (
        "You can look up notes about similar problems solved before. To look something up, write "
        f"{SEARCH} your query {END_SEARCH}; what is found comes back between <information> and "
        f"</information>. You may do so at most {times}. Think first. Then write the final answer,"
        f" in the form that is asked for below, between {ANSWER} and {END_ANSWER}."
    )


def query_in(turn: str) -> str:
    """Read the query out of a turn's text before its closing tag: what follows the last opening.

    Returns:
        Words with single spaces between them; empty where there are none or nothing was opened.

    >>> query_in("Hm. <search> nested <search> boiling  point ")
    'boiling point'
    >>> query_in("no tag at all")
    ''
    """
    _, opened, query = turn.rpartition(SEARCH)
    return " ".join(query.split()) if opened else ""


def without_searches(written: str) -> str:
    r"""Leave out searches with their queries, and single search tags.

    Each leaves a line break, so that what stood around it cannot grow together to a new tag.

    >>> without_searches("So <search>a</search>B</search>")
    'So \nB\n'
    """
    return _TAG.sub("\n", _CALL.sub("\n", written))


def answer_in(written: str) -> str | None:
    """Return what stands in the last answer block that closes; None without one.

    Of nested blocks the innermost counts. Search tags are to be taken out before.

    >>> answer_in("<answer>4</answer> No: <answer> 5 </answer> <answer>6")
    '5'
    """
    blocks = _BLOCK.findall(written)
    return str(blocks[-1]).strip() if blocks else None


def graded_text(written: str) -> str:
    """Return what is graded: the answer block's content, or all that was written but searches.

    Args:
        written: All turns of the model, joined; without what searches brought back.

    >>> graded_text("<search>2+2</search> It is 4."), graded_text("Hm. <answer>4</answer>")
    ('It is 4.', '4')
    """
    rest = without_searches(written)
    answer = answer_in(rest)
    return rest.strip() if answer is None else answer
