import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import resource, sys
from expbench.models import load_model
from tests.models.samples import prompt
model = load_model("tiny", device="cpu", batch_tokens=4096)
model.generate([prompt(i, max_tokens=4) for i in range(100)])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.generate([prompt(i, max_tokens=4) for i in range(int(sys.argv[1]))])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="counts in KiB on Linux only")
def test_memory_follows_the_batch_and_not_the_number_of_prompts() -> None:
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "1000"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stdout) < 30 * 1024, f"{done.stdout} KiB more for ten times the prompts"
