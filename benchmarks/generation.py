"""Answering speed beside lm-evaluation-harness: same 64 GSM8K questions, same model, one machine.

Run it as `python benchmarks/generation.py --rows gsm8k/test.jsonl [--peer bfloat16:16,float32:64]
[--rounds 2] [--json]`. Both sides are whole processes that get the same prompt ids, decode greedily
and write at most 128 new tokens; they alternate, and the script checks the ids. The peer
runs its own command line in its own environment, with a task file made here; two of its methods are
wrapped to note times and ids. Our side is `expbench run --method direct --task gsm8k` with the
token limit lowered for the comparison. Without --peer-python an environment with lm-eval 0.4.13 is
made in benchmarks/.work.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
WORK = Path(__file__).parent / ".work"
MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
QUESTIONS, NEW_TOKENS = 64, 128
PEER_PACKAGES = ["lm-eval[hf]==0.4.13", "transformers==5.24.0", "torch", "accelerate"]
TASK = """
task: expbench_gsm8k
dataset_path: json
dataset_kwargs:
  data_files:
    test: {rows}
output_type: generate_until
test_split: test
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{target}}}}"
num_fewshot: 0
generation_kwargs: {{until: [], do_sample: false, max_gen_toks: {new}}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
PEER = """
import json, os, sys, time
start = time.perf_counter()
import lm_eval.models.huggingface as hf
from lm_eval.__main__ import cli_evaluate
notes, until, model_generate = {"ids": []}, hf.HFLM.generate_until, hf.HFLM._model_generate
def timed(self, *args, **kwargs):
    before = time.perf_counter()
    try:
        return until(self, *args, **kwargs)
    finally:
        notes["answer_s"] = time.perf_counter() - before
def noted(self, context, *args, **kwargs):
    out = model_generate(self, context, *args, **kwargs)
    for ids, mask, reply in zip(context, kwargs["attention_mask"].bool(), out):
        notes["ids"].append([ids[mask].tolist(), reply[context.shape[1]:].tolist()])
    return out
hf.HFLM.generate_until, hf.HFLM._model_generate = timed, noted
try:
    cli_evaluate()
finally:
    json.dump(notes, open(os.environ["NOTES"], "w"))
"""
OURS = """
import json, os, sys
from dataclasses import replace
import expbench.tasks.gsm8k as gsm8k
from expbench import cli
from expbench.models.hf import HFModel
gsm8k.TASK = replace(gsm8k.TASK, max_tokens=int(os.environ["NEW_TOKENS"]))
notes, generate_ids = {"ids": []}, HFModel.generate_ids
def noted(self, requests, **kwargs):
    done = generate_ids(self, requests, **kwargs)
    notes["ids"] += [[r.ids, d.ids] for r, d in zip(requests, done, strict=True)]
    notes["dtype"] = self.dtype
    return done
HFModel.generate_ids = noted
try:
    cli.main()
finally:
    json.dump(notes, open(os.environ["NOTES"], "w"))
"""


def prepare(rows_file: Path) -> Path:
    """Write the questions in both sides' forms; return the folder."""
    from expbench.core import Question
    from expbench.tasks.prompts import math_prompt

    lines = rows_file.read_text(encoding="utf-8").split("\n")
    data, folder = WORK / "data" / "gsm8k", WORK / "task"
    for made in (data, folder):
        shutil.rmtree(made, ignore_errors=True)
        made.mkdir(parents=True)
    (data / "test.jsonl").write_text("\n".join(lines[:QUESTIONS]) + "\n", encoding="utf-8")
    # `direct` never reads these, but a task without a train split is an error.
    unused = [{"question": f"What is {n} + 1?", "answer": f"#### {n + 1}"} for n in range(8)]
    (data / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in unused))
    with (folder / "rows.jsonl").open("w", encoding="utf-8") as out:
        for row in map(json.loads, lines[:QUESTIONS]):
            question = Question(id="", task="gsm8k", kind="math", input=row["question"])
            target = row["answer"].rpartition("####")[2].strip()
            out.write(json.dumps({"prompt": math_prompt(question), "target": target}) + "\n")
    text = TASK.format(rows=folder / "rows.jsonl", new=NEW_TOKENS)
    (folder / "expbench_gsm8k.yaml").write_text(text)
    return WORK / "data"


def bundled_rows() -> Path:
    """Return the 64 questions of the mini suite in one file."""
    folder = ROOT / "expbench" / "mini" / "gsm8k"
    text = "".join((folder / f"{split}.jsonl").read_text("utf-8") for split in ("test", "train"))
    (WORK / "mini.jsonl").write_text(text, encoding="utf-8")
    return WORK / "mini.jsonl"


def timed(command: list[str | Path], **environment: str) -> dict[str, Any]:
    """Run one process; return its wall and CPU seconds and what it noted."""
    notes = WORK / "notes.json"
    notes.unlink(missing_ok=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment, "NOTES": str(notes), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    wall_s = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or not notes.exists():
        sys.exit(f"{command[0]} failed:\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**json.loads(notes.read_text()), "whole_s": wall_s, "cpu_s": cpu_s}


def run_ours(data: Path) -> dict[str, Any]:
    """Answer with `expbench run`; the time to answer is the run's own."""
    runs = WORK / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    command = [sys.executable, "-c", OURS, "run", "--method", "direct", "--task", "gsm8k"]
    command += ["--data-dir", str(data), "--test-limit", "0", "--out", str(runs), "--model", MODEL]
    path = os.pathsep.join([str(ROOT), str(ROOT / "methods"), os.environ.get("PYTHONPATH", "")])
    found = timed([*command, "--json"], PYTHONPATH=path, NEW_TOKENS=str(NEW_TOKENS))
    run = json.loads(next(runs.glob("*/run.json")).read_text())
    found["answer_s"] = sum(session["seconds"]["answer"] for session in run["sessions"])
    return found


def run_peer(python: Path, model: Path, setting: str) -> dict[str, Any]:
    """Answer with lm-eval's command line at one dtype and batch size."""
    dtype, batch = setting.split(":")
    command = [python, "-c", PEER, "run", "--model", "hf", "--device", "cpu"]
    command += ["--model_args", f"pretrained={model},dtype={dtype}", "--batch_size", batch]
    command += ["--tasks", "expbench_gsm8k", "--include_path", WORK / "task"]
    return timed(
        [*command, "--apply_chat_template"],
        HF_HOME=str(WORK / "huggingface"),
        HF_DATASETS_OFFLINE="1",
    )


def peer_python(given: Path | None) -> Path:
    """Return the peer's interpreter, in an environment made at the first run."""
    if given is not None:
        return given
    python = WORK / "peer" / "bin" / "python"
    if not (WORK / "peer" / "READY").exists():
        venv.create(WORK / "peer", with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *PEER_PACKAGES], check=True)
        (WORK / "peer" / "READY").touch()
    return python


def agreement(ours: list[Any], theirs: list[Any], ends: set[int]) -> tuple[int, int]:
    """Count the prompts that both sides read alike, and the replies that are equal."""

    def until_end(ids: list[int]) -> list[int]:
        at = [i for i, token in enumerate(ids) if token in ends]
        return ids[: at[0]] if at else ids

    replies = {tuple(prompt): until_end(reply) for prompt, reply in theirs}
    same = [until_end(reply) == replies.get(tuple(prompt)) for prompt, reply in ours]
    return sum(tuple(prompt) in replies for prompt, _ in ours), sum(same)


def main() -> None:
    """Measure and print; exit 1 where the two sides did not read the same prompts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = os.environ.get("EXPBENCH_REAL_DATA")
    rows = Path(data) / "gsm8k" / "test.jsonl" if data else None
    parser.add_argument("--rows", type=Path, default=rows, help="default: the mini suite's 64")
    parser.add_argument("--peer", default="bfloat16:16", help="dtype:batch size, joined by commas")
    parser.add_argument("--peer-python", type=Path)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    python, folder = peer_python(options.peer_python), prepare(options.rows or bundled_rows())
    sys.path[:0] = [str(ROOT)]
    from expbench.models.sources import find_files

    model, peers = find_files(MODEL).folder, options.peer.split(",")
    ours: list[dict[str, Any]] = []
    theirs: dict[str, list[dict[str, Any]]] = {peer: [] for peer in peers}
    for _ in range(options.rounds):
        for peer in peers:
            ours.append(run_ours(folder))
            theirs[peer].append(run_peer(python, model, peer))
    ends = {2}  # the end token of this model
    sys.exit(_print(ours, theirs, ends, as_json=options.json))


def _print(
    ours: list[dict[str, Any]],
    theirs: dict[str, list[dict[str, Any]]],
    ends: set[int],
    *,
    as_json: bool,
) -> int:
    columns = ("answer_s", "whole_s", "cpu_s")
    mine = {key: statistics.median(run[key] for run in ours) for key in columns}
    table = {f"expbench {ours[0]['dtype']}": {**mine, "runs": len(ours)}}
    alike = True
    for peer, runs in theirs.items():
        found: dict[str, Any] = {key: statistics.median(r[key] for r in runs) for key in columns}
        found["runs"] = len(runs)
        found |= {f"ratio_{key}": mine[key] / found[key] for key in columns}
        prompts, replies = agreement(ours[0]["ids"], runs[0]["ids"], ends)
        found |= {"same_prompts": prompts, "same_replies": replies}
        alike &= prompts == QUESTIONS
        table[f"lm-eval {peer}"] = found
    if as_json:
        print(json.dumps({k: {n: round(v, 3) for n, v in row.items()} for k, row in table.items()}))
        return int(not alike)
    heads = ("answer_s", "whole_s", "cpu_s", "ratio_answer_s", "ratio_whole_s", "same_prompts")
    print(f"{'':24}" + "".join(f"{head:>16}" for head in (*heads, "same_replies")))
    for name, row in table.items():
        cells = [row.get(head) for head in (*heads, "same_replies")]
        print(f"{name:24}" + "".join(f"{'' if c is None else round(c, 3):>16}" for c in cells))
    return int(not alike)


if __name__ == "__main__":
    main()
