"""`expbench regrade`."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from expbench import sandbox
from expbench.console import say
from expbench.jobs import require_isolation
from expbench.records import RunFolder, find_run, find_runs
from expbench.registry import get_task
from expbench.runner import Regrade, regrade
from expbench.suites import load


def regrade_runs(
    names: Sequence[str] | None,
    *,
    root: Path,
    data_dir: Path | None,
    unsafe_code: bool,
    as_json: bool,
) -> None:
    """Grade the stored outputs of runs again and say what changed.

    Raises:
        ExpBenchError: no such run, unfinished, other data, or no sandbox.
    """
    sandbox.configure(unsafe=unsafe_code)
    folders = [find_run(root, name) for name in names] if names else find_runs(root)
    done = [_regrade(folder, data_dir) for folder in folders]
    if as_json:
        print(json.dumps([asdict(result) for result in done], indent=1))
        return
    for result in done:
        say(
            f"{result.run_id}: {len(result.changed)} of {result.samples} grades changed, "
            f"{result.errors} errors left."
        )


def _regrade(folder: RunFolder, data_dir: Path | None) -> Regrade:
    spec = folder.info["spec"]
    task = get_task(spec["task"])
    require_isolation([task])
    data = load(
        task,
        suite=spec["suite"],
        data_dir=data_dir,
        train_limit=spec["limits"]["train"],
        test_limit=spec["limits"]["test"],
    )
    return regrade(folder, task, data)
