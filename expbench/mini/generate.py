"""Writes the generated files of the mini suite: `python -m expbench.mini.generate`.

With `--check` nothing is written: files that differ from what would be written are named, and
the exit status is 1 if there are any.
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from expbench.mini.algebra import math
from expbench.mini.arithmetic import gsm8k, gsm_symbolic
from expbench.mini.interactions import amazon_games, movielens

FOLDER = Path(__file__).parent


def contents() -> dict[str, str]:
    """Make the text of every generated file, by its path below the mini folder."""
    files: dict[str, str] = {}
    for task, splits in (("gsm8k", gsm8k()), ("gsm_symbolic", gsm_symbolic()), ("math", math())):
        for split, rows in splits.items():
            files[f"{task}/{split}.jsonl"] = _jsonl(rows)
    for task, tables in (("movielens", movielens()), ("amazon_games", amazon_games())):
        files.update({f"{task}/{name}": text for name, text in tables.items()})
    return files


def differing(folder: Path = FOLDER) -> list[str]:
    """Name the generated files that are missing or not byte for byte as they should be."""
    return [
        name
        for name, text in contents().items()
        if not (folder / name).is_file() or (folder / name).read_bytes() != text.encode()
    ]


def write(folder: Path = FOLDER) -> None:
    """Write every generated file, with Unix line ends on every system."""
    for name, text in contents().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; the result is the exit status."""
    parser = argparse.ArgumentParser(prog="python -m expbench.mini.generate", description=__doc__)
    parser.add_argument("--check", action="store_true", help="name differing files, write nothing")
    if not parser.parse_args(arguments).check:
        write()
        return 0
    names = differing()
    for name in names:
        print(f"{name} differs from what expbench.mini.generate makes.")
    return 1 if names else 0


def _jsonl(rows: Sequence[Mapping[str, str | int]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


if __name__ == "__main__":
    raise SystemExit(main())
