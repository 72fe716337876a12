"""Find the program in a model's reply.

Whole fenced blocks come first: the last one that parses and defines the function counts, so a usage
example after the solution does not replace it. Then come replies without fences: a program amid
prose, or a bare body that continues the prompt. A fence inside a docstring, a fence that never
closes and one left over from the prompt are all met in practice.
"""

import ast
import re
from collections.abc import Iterator

_REASONING_END = re.compile(r"</(?:think|thinking|thought|reasoning)>|\[/THINK\]|◁/think▷", re.I)
_REASONING = re.compile(r"<(?:think|thinking|thought|reasoning)>|\[THINK\]|◁think▷", re.I)
_FENCE = re.compile(r"[ \t>]{0,8}(?:`{3,}|~{3,})[ \t]*[\w+#.-]*[ \t]*$")
_CODE_START = re.compile(r"(?:async def|def|class|import|from)\s|@\w")
_MAX_FENCES = 40


def extract_code(reply: str, *, prompt: str, entry_point: str) -> str | None:
    r"""Return a program that can be run on its own, or None if the reply holds no code.

    Imports and helpers of the prompt that the reply does not define come first. Code that does not
    parse is returned as it is, so that running it says what is wrong.

    Args:
        reply: What the model wrote.
        prompt: The code prompt; anything that is not Python counts as empty.
        entry_point: The function that the program has to define.

    >>> print(extract_code("Sure!\n```py\ndef f(x):\n    return x\n```", prompt="",
    ...                    entry_point="f"))
    def f(x):
        return x
    >>> print(extract_code("    return x", prompt="def f(x):", entry_point="f"))
    def f(x):
        return x
    >>> extract_code("I cannot do that.", prompt="def f(x):", entry_point="f") is None
    True
    """
    text = _graded(reply).replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    fences = [i for i, line in enumerate(lines) if _FENCE.match(line)][:_MAX_FENCES]
    blocks = [b for b in _blocks(lines, fences, entry_point) if b.strip()]
    whole = [block for block in blocks if _defines(block, entry_point)]
    # What stands before a lone closing fence, or all of a reply without fences.
    bare = lines[: fences[0]] if fences else lines
    program = whole[-1] if whole else _amid_prose(bare, entry_point)
    if program:
        return _with_prompt(program, prompt, entry_point)
    for body in (*reversed(blocks), "\n".join(bare)):
        continued = _continued(body, prompt, entry_point)
        if continued:
            return continued
    return _with_prompt(blocks[-1], prompt, entry_point) if blocks else _broken(bare, entry_point)


def _graded(reply: str) -> str:
    """Cut off the reasoning; unlike prose, code keeps its indentation and its comments."""
    start = 0
    for close in _REASONING_END.finditer(reply):
        start = close.end()
    return "" if _REASONING.search(reply, start) else reply[start:]


def _parse(code: str) -> ast.Module | None:
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _names(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement binds."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).split(".")[0] for alias in statement.names}
    return {
        node.id
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }


def _defines(code: str, name: str) -> bool:
    tree = _parse(code)
    return tree is not None and any(name in _names(statement) for statement in tree.body)


def _blocks(lines: list[str], fences: list[int], entry_point: str) -> Iterator[str]:
    """Yield the fenced blocks; one ends at the first fence where it is a complete program."""
    position = 0
    while position < len(fences):
        start = fences[position] + 1
        ends = fences[position + 1 :]
        whole = [e for e in ends if _defines("\n".join(lines[start:e]), entry_point)]
        if whole:
            yield "\n".join(lines[start : whole[0]])
            position = fences.index(whole[0]) + 1
        elif ends:
            yield "\n".join(lines[start : ends[0]])
            position += 2
        else:
            program = _longest(lines[start:], "")
            if any(line.strip() for line in lines[start:]):
                yield program if _defines(program, entry_point) else "\n".join(lines[start:])
            position += 1


def _longest(lines: list[str], before: str) -> str:
    """Return the longest run of first lines that parses behind `before`; empty if none does."""
    offset = before.count("\n")
    end = len(lines)
    while end > 0:
        try:
            ast.parse(before + "\n".join(lines[:end]))
            return "\n".join(lines[:end])
        except SyntaxError as error:
            end = min(end - 1, max((error.lineno or 1) - 1 - offset, 0))
        except (ValueError, RecursionError, MemoryError):
            return ""
    return ""


def _amid_prose(lines: list[str], entry_point: str) -> str | None:
    """Find a program that starts at a line of its own and ends where prose begins."""
    for start, line in enumerate(lines):
        if _CODE_START.match(line):
            program = _without_words(_longest(lines[start:], ""))
            if _defines(program, entry_point):
                return program
    return None


def _without_words(code: str) -> str:
    """Drop top-level expressions that do nothing: a line `Done` is prose that happens to parse."""
    tree = _parse(code)
    idle = [s for s in tree.body if isinstance(s, ast.Expr) and not _acts(s)] if tree else []
    lines = code.split("\n")
    for statement in idle:
        for number in range(statement.lineno - 1, statement.end_lineno or statement.lineno):
            lines[number] = ""
    return "\n".join(lines).rstrip()


def _acts(statement: ast.Expr) -> bool:
    return isinstance(statement.value, ast.Call | ast.Await | ast.Constant)


def _continued(text: str, prompt: str, entry_point: str) -> str | None:
    """Read the text as the body that the prompt's last function lacks."""
    head = prompt.replace("\r\n", "\n").rstrip() + "\n"
    lines = text.split("\n")
    while lines and not lines[0].strip():
        del lines[0]
    if not lines or not head.strip():
        return None
    # Some decoders lose the first line's indentation.
    variants = [lines] if lines[0][0] in " \t" else [[f"    {lines[0]}", *lines[1:]]]
    for variant in variants:
        body = _longest(variant, head)
        program = _without_words(head + body)
        if body and _defines(program, entry_point) and _has_body(program, entry_point):
            return program
    return None


def _has_body(program: str, entry_point: str) -> bool:
    """Whether the function holds more than a docstring and words that happen to parse."""
    tree = _parse(program)
    for statement in tree.body if tree else ():
        if isinstance(statement, ast.FunctionDef) and statement.name == entry_point:
            return any(not isinstance(s, ast.Expr) or _calls(s) for s in statement.body)
    return False


def _calls(statement: ast.Expr) -> bool:
    return isinstance(statement.value, ast.Call | ast.Yield | ast.YieldFrom)


def _broken(lines: list[str], entry_point: str) -> str | None:
    """Return code with a syntax error from the function's own line on; None for mere prose."""
    heads = [i for i, line in enumerate(lines) if re.match(rf"\s*def {entry_point}\b", line)]
    return "\n".join(lines[heads[0] :]) if heads else None


def _with_prompt(code: str, prompt: str, entry_point: str) -> str:
    """Put those imports and helpers of the prompt first that the code does not define."""
    source = prompt.replace("\r\n", "\n")
    tree = _parse(source) or _parse(source.rstrip() + "\n    pass\n")
    own = _parse(code)
    if tree is None or own is None:
        return code.strip("\n")
    defined = {entry_point}.union(*(_names(statement) for statement in own.body))
    wanted = [s for s in tree.body if not isinstance(s, ast.Expr) and not _names(s) & defined]
    future = [s for s in own.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    parts = [ast.unparse(statement) for statement in (*future, *wanted)]
    return "\n".join([*parts, code.strip("\n")])
