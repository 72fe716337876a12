"""Peak memory of a run against the number of test samples.

Runs `expbench run --method direct --task gsm8k` in processes of their own on invented word sums,
with the tiny random backbone, and prints each one's peak resident size and the growth a sample.

    python benchmarks/memory.py [--json] [--sizes 100 1000]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any


def write_rows(folder: Path, count: int) -> None:
    """Write a data folder with `count` test rows in the Hub's field names."""
    task = folder / "gsm8k"
    task.mkdir(parents=True)
    for split, number in (("train", 8), ("test", count)):
        with (task / f"{split}.jsonl").open("w", encoding="utf-8") as file:
            for i in range(number):
                question = f"Crate {split} {i} holds {i} pears and {i + 3} plums. How many fruits?"
                answer = f"{i} + {i + 3} = {2 * i + 3}.\n#### {2 * i + 3}"
                file.write(json.dumps({"question": question, "answer": answer}) + "\n")


def peak(count: int, model: str) -> float:
    """Run the command on `count` samples; return its peak resident size in MB."""
    with tempfile.TemporaryDirectory() as folder:
        write_rows(Path(folder) / "data", count)
        command = [sys.executable, "-m", "expbench.cli", "run", "-m", "direct", "-t", "gsm8k"]
        command += ["--preset", "smoke", "--model", model, "--test-limit", "0", "--json"]
        command += ["--data-dir", f"{folder}/data", "--out", f"{folder}/runs"]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            board = json.loads(process.stdout.read())["boards"][0]
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode or board["runs"][0]["answered"] != count:
        raise SystemExit(f"The run on {count} samples failed.")
    return usage.ru_maxrss / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peaks = {size: peak(size, options.model) for size in options.sizes}
    small, large = min(peaks), max(peaks)
    growth = (peaks[large] - peaks[small]) * 1024 / max(large - small, 1)
    result: dict[str, Any] = {
        "model": options.model,
        "peak_mb": {str(size): round(mb, 1) for size, mb in peaks.items()},
        "growth_kb_per_sample": round(growth, 2),
        "ratio": round(peaks[large] / peaks[small], 3),
    }
    if options.json:
        print(json.dumps(result))
        return
    for size, mb in peaks.items():
        print(f"{size:>6} samples  {mb:8.1f} MB peak")
    print(f"ratio {result['ratio']}, {result['growth_kb_per_sample']} kB a sample more")


if __name__ == "__main__":
    main()
