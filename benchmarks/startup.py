"""How long a person waits for `expbench --help`, `tasks` and `methods`: median of several starts.

Run it as `python benchmarks/startup.py [--json] [--repeat 9]`.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

VERBS = {"--help": 0.5, "tasks": 1.0, "methods": 1.0}
"""Verb -> seconds that are allowed."""


def measure(verb: str, repeat: int) -> float:
    """Start the command several times; return the median wall time in seconds."""
    program = Path(sys.executable).parent / "expbench"
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        subprocess.run([program, verb], stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Measure and print; exit 1 where a verb is slower than allowed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = {verb: round(measure(verb, options.repeat), 3) for verb in VERBS}
    if options.json:
        print(json.dumps(found))
    else:
        for verb, seconds in found.items():
            print(f"expbench {verb:<8} {seconds:.3f} s (allowed {VERBS[verb]} s)")
    sys.exit(any(seconds > VERBS[verb] for verb, seconds in found.items()))


if __name__ == "__main__":
    main()
