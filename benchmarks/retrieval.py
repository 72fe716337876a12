"""Time our exact search beside FAISS's flat inner-product index on the same unit vectors.

32 queries, D = 576, K = 8, at N = 2,000, 20,000 and 100,000, with the same number of threads, in
turns of two searches of which the second is timed. Two kinds of vectors: `isotropic`, gaussian in
every direction alike, and `decaying`, gaussian with variances falling as 1 / i^1.2 over randomly
turned directions, as centred hidden states of a small language model do (about 0.8 of the variance
in 64 directions). Both sides return the K best; ours breaks ties by position as well. Building an
index is timed apart. `ratio` is the median of the rounds' ratios, `low` to `high` its 95 %
interval. Exit 1 where the two disagree or ours is slower.

    python benchmarks/retrieval.py [--rounds 21] [--threads 2] [--sizes 2000 20000 100000] [--json]
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))
from turns import in_turns, ratio

from expbench.experience.search import Index

QUERIES, WIDTH, K = 32, 576, 8
DECAY = {"isotropic": 0.0, "decaying": 1.2}
FEW_ROWS = 20_000
"""Below it a search is short and there are as many more rounds."""
AGREE = 1e-5
"""Most that a score may differ; FAISS sums in float32."""


def unit_vectors(count: int, kind: str, seed: int) -> torch.Tensor:
    turn = torch.linalg.qr(torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(0)))[0]
    spread = torch.arange(1, WIDTH + 1) ** (-DECAY[kind] / 2)
    drawn = torch.randn(count, WIDTH, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.normalize((drawn * spread) @ turn, dim=1)


def compare(faiss: Any, kind: str, size: int, rounds: int) -> dict[str, Any]:
    rows, queries = unit_vectors(size, kind, seed=1), unit_vectors(QUERIES, kind, seed=2)
    begin = time.perf_counter()
    ours = Index(rows)
    ours.search(queries, K)
    build_s = time.perf_counter() - begin
    peer = faiss.IndexFlatIP(WIDTH)
    peer.add(rows.numpy())
    asked = queries.numpy()
    expected = torch.from_numpy(peer.search(asked, K)[0])
    times = in_turns(
        {"ours": lambda: ours.search(queries, K), "faiss": lambda: peer.search(asked, K)},
        rounds * max(1, FEW_ROWS // size),
        calls=2,
    )
    sketch = ours._sketch
    return {
        "vectors": kind,
        "rows": size,
        "ours_ms": round(statistics.median(times["ours"]), 2),
        "faiss_ms": round(statistics.median(times["faiss"]), 2),
        **ratio(times["ours"], times["faiss"]),
        "build_and_first_s": round(build_s, 2),
        "sketch": sketch.width if sketch is not None else 0,
        "agree": bool(torch.allclose(ours.search(queries, K)[0], expected, rtol=0, atol=AGREE)),
    }


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    names = [line.partition(":")[2].strip() for line in text.split("\n") if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", type=int, nargs="+", default=[2000, 20_000, 100_000])
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    try:
        import faiss
    except ImportError:
        sys.exit("This benchmark needs FAISS beside us: pip install 'expbench[bench]'.")
    torch.set_num_threads(options.threads)
    faiss.omp_set_num_threads(options.threads)
    lines = [compare(faiss, kind, size, options.rounds) for kind in DECAY for size in options.sizes]
    machine = (
        f"{processor()}, {options.threads} threads, load {os.getloadavg()[0]:.1f}, "
        f"torch {torch.__version__}, faiss {faiss.__version__}"
    )
    report(lines, machine, as_json=options.json)
    sys.exit(any(line["ratio"] > 1 or not line["agree"] for line in lines))


def report(lines: list[dict[str, Any]], machine: str, *, as_json: bool) -> None:
    growth = {}
    for kind in DECAY:
        own = [line for line in lines if line["vectors"] == kind]
        growth[kind] = {
            f"{a['rows']}-{b['rows']}": round(b["ours_ms"] / a["ours_ms"], 2)
            for a, b in itertools.pairwise(own)
        }
    if as_json:
        print(json.dumps({"machine": machine, "searches": lines, "growth": growth}))
        return
    print(f"{QUERIES} queries, D = {WIDTH}, K = {K}; {machine}")
    print("".join(f"{head:>{max(9, len(head) + 2)}}" for head in lines[0]))
    for line in lines:
        print("".join(f"{v!s:>{max(9, len(head) + 2)}}" for head, v in line.items()))
    for kind, steps in growth.items():
        print(f"growth of our time, {kind}: " + ", ".join(f"{k}: {v}" for k, v in steps.items()))


if __name__ == "__main__":
    main()
