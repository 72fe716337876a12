"""Time decoding with experience fused at every token beside the same model without it, in turns.

32 prompts of 100 tokens, 32 new tokens each (end tokens are ignored), greedy, through
`HFModel.generate_ids` on the fast session: the same forked backbone once with ExpWeaver's fusion
reading K = 8 entries a token, once with the fusion bypassed. Banks of N = 2,000 and 100,000 vectors
are drawn around the mean of the model's own states, with variances falling as 1 / i over their
principal directions. Loading, drawing and the first, untimed pass of each side (it projects and
sketches the bank) are not counted. `ratio` is the median of the rounds' ratios, `low` to `high` its
95 % interval. Exit 1 where the ratio is above its limit.

    python benchmarks/decoding.py [--model tiny] [--rounds 7] [--threads 2] [--sizes 2000] [--json]
"""

import argparse
import json
import os
import platform
import statistics
import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parent.parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "methods"))
from turns import in_turns, ratio

from expbench.experience.bank import Bank, Entry
from expbench.experience.normalise import Statistics
from expbench.models import load_model
from expbench.models.decoding import Completion, Request
from expbench.models.hf import HFModel
from expbench.models.llama import is_plain_llama
from expbench_methods.expweaver.config import FusionSettings
from expbench_methods.expweaver.fusion import Fusion
from expbench_methods.expweaver.install import bypassed, install

ROOT = Path(__file__).parent.parent
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
ROWS, PROMPT, NEW, K, HEADS = 32, 100, 32, 8, 8
LIMITS = {2000: 1.05, 100_000: 1.15}
"""Most that a token with fusion may cost, in tokens without it, by the size of the bank."""


def prompts(model: HFModel) -> list[list[int]]:
    """Return word problems of the mini suite, cut or joined to the same number of tokens."""
    lines = (ROOT / "expbench" / "mini" / "gsm8k" / "train.jsonl").read_text("utf-8").splitlines()
    texts = [str(json.loads(line)["question"]) for line in lines]
    rows = []
    for number in range(ROWS):
        turned = texts[number % len(texts) :] + texts[: number % len(texts)]
        text = " ".join(turned[:16])
        rows.append(model.tokenizer(text, add_special_tokens=False)["input_ids"][:PROMPT])
    return rows


@torch.no_grad()
def own_states(model: HFModel, rows: list[list[int]]) -> Tensor:
    """Return the states of all prompt tokens, (tokens, D)."""
    body = model.module.get_decoder()
    states_BTD: Tensor = body(input_ids=torch.tensor(rows), use_cache=False).last_hidden_state
    return states_BTD.flatten(0, 1).float()


def make_bank(states_ND: Tensor, count: int) -> Bank:
    """Draw a bank that looks like the model's states; queries are normalised by their own."""
    width = states_ND.shape[1]
    whole = Statistics.of(states_ND, "standardise")
    # Nearly equal directions at the end of the spectrum do not matter here.
    axes_DD = torch.linalg.eigh((states_ND - whole.centre_D).T.cov()).eigenvectors.flip(1).T
    spread_D = torch.arange(1, width + 1) ** -0.5
    spread_D *= whole.scale / spread_D.square().mean().sqrt()
    drawn_ND = torch.randn(count, width, generator=torch.Generator().manual_seed(1))
    entries = [
        Entry(
            id=f"{n:06}",
            sample_id=str(n),
            task="drawn",
            split="train",
            reward=1.0,
            step=0,
            encoder="drawn",
            summary="",
        )
        for n in range(count)
    ]
    bank = Bank(width, count, "drawn")
    bank.add(entries, whole.centre_D + (drawn_ND * spread_D) @ axes_DD)
    bank.query = whole
    return bank


def compare(model: HFModel, fusion: Fusion, size: int, rounds: int) -> dict[str, Any]:
    """Time both sides in turns."""
    rows = prompts(model)
    requests = [Request(ids=row, max_tokens=NEW, key=str(n)) for n, row in enumerate(rows)]
    with bypassed(model.module):
        states_ND = own_states(model, rows)
    fusion.memory = make_bank(states_ND, size).memory()
    written: dict[str, list[Completion]] = {}

    def write(name: str, entered: AbstractContextManager[None]) -> None:
        with entered:
            written[name] = model.generate_ids(requests)
        assert all(len(answer.ids) == NEW for answer in written[name])

    sides = {
        "plain": lambda: write("plain", bypassed(model.module)),
        "fused": lambda: write("fused", nullcontext()),
    }
    in_turns(sides, 1)
    times = in_turns(sides, rounds)
    return {
        "entries": size,
        "plain_ms": round(statistics.median(times["plain"]), 1),
        "fused_ms": round(statistics.median(times["fused"]), 1),
        **ratio(times["fused"], times["plain"]),
        "limit": LIMITS.get(size),
        "answers_changed": sum(
            a.ids != b.ids for a, b in zip(written["fused"], written["plain"], strict=True)
        ),
    }


def processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.exists() else ""
    names = [line.partition(":")[2].strip() for line in text.split("\n") if "model name" in line]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--model", default=MODEL)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--sizes", type=int, nargs="+", default=list(LIMITS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    loaded = load_model(options.model)
    if not isinstance(loaded, HFModel):
        sys.exit(f"{options.model} has no weights to decode with; give --model tiny or a real one.")
    model = loaded.fork(share_weights=True)
    model.eos_ids = frozenset()
    fusion = Fusion(int(model.module.config.hidden_size), FusionSettings(heads=HEADS, k=K), seed=0)
    install(model.module, fusion)
    if not is_plain_llama(model.module):
        sys.exit(f"{options.model} does not decode on the fast session; give a Llama on a CPU.")
    lines = [compare(model, fusion, size, options.rounds) for size in options.sizes]
    machine = (
        f"{processor()}, {options.threads} threads, load {os.getloadavg()[0]:.1f}, "
        f"torch {torch.__version__}, {options.model} in {model.dtype}"
    )
    report(lines, machine, as_json=options.json)
    sys.exit(any(line["limit"] and line["ratio"] > line["limit"] for line in lines))


def report(lines: list[dict[str, Any]], machine: str, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"machine": machine, "decoding": lines}))
        return
    print(f"{ROWS} rows, {PROMPT} + {NEW} tokens, K = {K}; {machine}")
    print("".join(f"{head:>17}" for head in lines[0]))
    for line in lines:
        print("".join(f"{value!s:>17}" for value in line.values()))


if __name__ == "__main__":
    main()
