"""The shared cases of the areas that graders and statistics decide, one test an area."""

import os
from pathlib import Path

import pytest

from tests.run_cases import AREAS, run


@pytest.mark.parametrize("area", sorted(AREAS))
def test_every_shared_case_gets_its_expected_value(area: str) -> None:
    folder = os.environ.get("EXPBENCH_CASES")
    if not folder:
        pytest.skip("EXPBENCH_CASES is not set")
    lines = (Path(folder) / f"{area}.jsonl").read_text(encoding="utf-8").splitlines()
    wrong = [text for verdict, text in run(lines) if verdict == "failed"]
    assert lines and not wrong, "\n".join(wrong)
