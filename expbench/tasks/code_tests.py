"""What both coding tasks share: time limits, the name under test, the answer that must pass."""

import ast
import warnings

from expbench.core import Sample
from expbench.data import Row

TIMEOUT_S = 10.0
"""Wall time of a solution's tests; most canonical solutions need under 2 s."""
SLOW_TIMEOUT_S = 180.0
"""For the problems whose canonical solution needs long for its tests: up to 25 s in one process,
and three times that where a million values cross the sandbox's channel on a busy machine."""


def fenced(sample: Sample) -> str:
    """Answer with the canonical solution in the form the prompt asks for."""
    return f"```python\n{sample.target[0]}\n```"


def called_function(row: Row, code: str, test: str) -> str:
    """Name the function of `code` that the test calls first.

    Raises:
        DataError: no function of the code is called in the test, or one does not parse.
    """
    try:
        with warnings.catch_warnings(action="ignore"):
            defined = {n.name for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)}
            calls = [n for n in ast.walk(ast.parse(test.strip())) if isinstance(n, ast.Call)]
    except SyntaxError as error:
        raise row.error(f"code or test is not valid Python ({error.msg}).") from None
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in defined:
            return call.func.id
    raise row.error(f"the first test calls none of the functions {sorted(defined)} of the code.")
