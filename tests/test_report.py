"""Tables from run folders: the denominator is fixed, boards and editions are never mixed."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from expbench.core import Output, Record, RunSpec, Score, Segment
from expbench.records import RunFolder
from expbench.report.estimates import estimate_macro, estimate_mean
from expbench.report.render import as_json, markdown, print_boards
from expbench.report.rows import RunRow, label_methods, read_row
from expbench.report.tables import Table, boards
from expbench.stats import wilson_interval

SPEC = RunSpec(
    task="gsm8k",
    task_version=1,
    method="direct",
    method_version=1,
    method_config={},
    backbone={"name": "a/b", "fingerprint": "f" * 64, "dtype": "float32", "device": "cpu"},
    preset="laptop",
    suite="mini",
    seed=1,
    limits={"train": 32, "test": 4},
    data={"checksums": {"test": "0" * 64}},
    pool=None,
)


def write_run(root: Path, scores: list[float | None], samples: int = 4, **changes: Any) -> RunRow:
    """Write a run folder with these scores (None: an error) and read its row."""
    task = {"kind": "math", "macro_over": "", **changes.pop("task_info", {})}
    tags = changes.pop("tags", [{}] * len(scores))
    spec = replace(SPEC, **changes)
    folder = RunFolder(root, spec.run_id)
    folder.path.mkdir(parents=True)
    folder.write_info(
        {
            "status": "complete",
            "spec": asdict(spec),
            "samples": samples,
            "task": {
                "scenario": "general", "group": "reasoning", "metric": "exact match",
                "graded_version": spec.task_version, **task,
            },
            "method": {"reference": spec.method == "random"},
            "sessions": [{"seconds": {"grade": 1.0}}, {"seconds": {"grade": 2.0}}],
            "notes": [],
            "provenance": {},
        }
    )  # fmt: skip
    folder.append_records(
        Record(
            run_id=spec.run_id,
            sample_id=str(i),
            output=Output(
                text="x",
                segments=(
                    Segment(role="prompt", tokens=10),
                    Segment(role="retrieved", tokens=5),
                    Segment(role="generated", tokens=2),
                ),
            ),
            score=None if score is None else Score(value=score, answer="x"),
            error="boom" if score is None else None,
            seconds=0.5,
            target="Yes",
            tags=tag,
        )
        for i, (score, tag) in enumerate(zip(scores, tags, strict=True))
    )
    return read_row(folder)


def cells(table: Table, label: str) -> dict[str, Any]:
    column = table.columns.index(label)
    return {str(row[0]): row[column] for row in table.rows}


def test_errors_and_missing_samples_stay_in_the_denominator(tmp_path: Path) -> None:
    row = write_run(tmp_path, [1.0, None, 1.0], samples=4)
    assert (row.score, row.errors, row.answered, row.is_ranked) == (0.5, 1, 3, False)
    assert (row.low, row.high) == wilson_interval(2, 4)


def test_an_unfinished_run_shows_its_share_and_no_score(tmp_path: Path) -> None:
    row = write_run(tmp_path, [1.0, 1.0, 1.0], samples=10)
    [board] = boards([row])
    assert cells(board.tables[0], "direct")["gsm8k"] == "3/10 done"


def test_a_run_with_errors_has_no_mean(tmp_path: Path) -> None:
    rows = [
        write_run(tmp_path, [1.0, None, 1.0, 1.0]),
        write_run(tmp_path, [1.0] * 4, task="mmlu"),
    ]
    [board] = boards(rows)
    found = cells(board.tables[0], "direct")
    assert "!1" in found["gsm8k"]
    assert found["mean: all tasks"] is None


def test_partial_coverage_has_no_overall_mean(tmp_path: Path) -> None:
    rows = [
        write_run(tmp_path, [1.0] * 4),
        write_run(tmp_path, [1.0] * 4, task="mmlu"),
        write_run(tmp_path, [1.0] * 4, method="random", backbone={}),
    ]
    [board] = boards(rows)
    assert cells(board.tables[0], "random") == {
        "gsm8k": "100.0 [51,100]", "mmlu": None,
        "mean: general": None, "mean: all tasks": None,
    }  # fmt: skip
    assert cells(board.tables[0], "direct")["mean: all tasks"] == "100.0"


@pytest.mark.parametrize(
    "change",
    [{"suite": "full"}, {"preset": "paper"}, {"limits": {"train": 1, "test": 4}},
     {"sandbox": "unsafe"}],
)  # fmt: skip
def test_runs_that_differ_in_kind_stand_on_boards_of_their_own(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    rows = [write_run(tmp_path, [1.0] * 4), write_run(tmp_path, [0.0] * 4, **change)]
    assert len(boards(rows)) == 2


def test_two_versions_of_a_task_are_never_averaged_and_the_choice_is_said(tmp_path: Path) -> None:
    rows = [
        write_run(tmp_path, [1.0] * 4, task_version=2),
        write_run(tmp_path, [1.0] * 4, task_version=2, seed=2),
        write_run(tmp_path, [0.0] * 4, task_version=1, seed=3),
    ]
    [board] = boards(rows)
    assert cells(board.tables[0], "direct")["gsm8k"] == "100.0 [51,100]"
    assert any(rows[2].run_id in note for note in board.tables[0].notes)


def test_two_backbones_and_two_settings_are_columns_of_their_own(tmp_path: Path) -> None:
    rows = [
        write_run(tmp_path, [1.0] * 4, method="few_shot", method_config={"k": 4, "x": 1}),
        write_run(tmp_path, [0.0] * 4, method="few_shot", method_config={"k": 8, "x": 1}),
    ]
    assert set(label_methods(rows).values()) == {"few_shot(k=4)", "few_shot(k=8)"}
    other = write_run(tmp_path, [0.0] * 4, backbone={**SPEC.backbone, "fingerprint": "e" * 64})
    assert len(set(label_methods([*rows, other]).values())) == 3


def test_runs_of_one_cell_are_told_apart_by_version_pool_or_id(tmp_path: Path) -> None:
    first = write_run(tmp_path, [1.0] * 4, method="few_shot")
    version = write_run(tmp_path, [0.0] * 4, method="few_shot", method_version=2)
    assert set(label_methods([first, version]).values()) == {
        "few_shot(version 1)", "few_shot(version 2)"
    }  # fmt: skip
    other = write_run(tmp_path, [0.0] * 4, method="few_shot", pool="abc")
    labels = label_methods([first, other])
    assert len(set(labels.values())) == 2
    [board] = boards([first, other])
    assert [row[3:] for row in board.tables[0].rows] in (
        [("100.0 [51,100]", "0.0 [0, 49]")], [("0.0 [0, 49]", "100.0 [51,100]")]
    )  # fmt: skip
    seeds = [first, write_run(tmp_path, [0.0] * 4, method="few_shot", seed=2)]
    assert set(label_methods(seeds).values()) == {"few_shot"}


def test_the_macro_mean_weighs_every_property_the_same(tmp_path: Path) -> None:
    tags = [{"property": "A"}, {"property": "A"}, {"property": "A"}, {"property": "B"}]
    row = write_run(
        tmp_path, [1.0, 1.0, 1.0, 0.0], tags=tags,
        task_info={"macro_over": "property", "kind": "chem"},
    )  # fmt: skip
    assert row.score == 0.5


def test_costs_are_added_up_over_sessions_and_samples(tmp_path: Path) -> None:
    row = write_run(tmp_path, [1.0, 0.0, 1.0, 0.0])
    assert row.tokens == {"prompt": 40, "retrieved": 20, "generated": 8}
    assert row.seconds == {"grade": 3.0, "answer": 2.0}
    [board] = boards([row])
    cost = board.tables[1]
    line: dict[Any, Any] = dict(cost.rows)  # type: ignore[arg-type]
    assert line["prompt tokens / sample"] == 10.0
    assert line["tokens / right answer"] == 34.0


def test_a_method_with_no_right_answer_has_no_cost_of_one(tmp_path: Path) -> None:
    [board] = boards([write_run(tmp_path, [0.0] * 4)])
    assert cells(board.tables[1], "direct")["tokens / right answer"] is None


def test_intervals_are_finite_and_hold_the_score() -> None:
    for scores in ([1.0], [0.0], [0.5], [0.3] * 5, [0.0, 0.5, 1.0, None]):
        score, low, high = estimate_mean(scores)
        assert 0 <= low <= score <= high <= 1
    assert estimate_macro({"a": [1.0, 1.0], "b": [0.0]})[0] == 0.5


def test_a_small_stratum_that_is_all_right_does_not_look_certain() -> None:
    score, low, high = estimate_macro({"a": [1.0, 1.0], "b": [1.0, 1.0, 1.0]})
    assert (score, high) == (1.0, 1.0)
    assert low < 0.8


def test_the_bootstrap_agrees_with_scipy_on_a_plain_mean() -> None:
    import numpy as np
    from scipy.stats import bootstrap

    scores = list(np.random.default_rng(3).random(60))
    _, low, high = estimate_mean(scores)
    theirs = bootstrap((scores,), np.mean, method="percentile", rng=1).confidence_interval
    assert abs(low - theirs.low) < 0.01
    assert abs(high - theirs.high) < 0.01


def test_every_rendering_shows_every_cell(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        write_run(tmp_path, [1.0, 0.0, 1.0, 1.0]),
        write_run(tmp_path, [0.0] * 4, method="random", backbone={}),
    ]
    made = boards(rows)
    text = markdown(made)
    print_boards(made, width=160)
    screen = capsys.readouterr().out
    for shown in (text, screen):
        assert "75.0 [30, 95]" in shown
        assert "0.0 [0, 49]" in shown
        assert "A difference smaller than the intervals is not a win." in shown
    [value] = as_json(made)
    assert {r["run_id"] for r in value["runs"]} == {row.run_id for row in rows}
