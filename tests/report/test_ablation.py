"""The ablation table against numbers worked out by hand."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expbench.core import Output, Record, RunSpec, Score
from expbench.errors import ConfigError, RecordError
from expbench.records import RunFolder
from expbench.report.ablation import Line, Pair, ablation_lines, ablation_table, read_pair
from expbench.report.render import markdown_table, print_table
from expbench.stats import paired_gain

SPEC = RunSpec(
    task="a",
    task_version=1,
    method="trainee",
    method_version=1,
    method_config={"control": "none"},
    backbone={},
    preset="smoke",
    suite="mini",
    seed=1,
    limits={"train": 0, "test": 0},
    data={"checksums": {"test": "0" * 64}},
    pool=None,
)


def write(
    root: Path, scores: list[float | None], tags: Sequence[str] = (), **changes: Any
) -> RunFolder:
    spec = replace(SPEC, **changes)
    folder = RunFolder(root, spec.run_id)
    folder.path.mkdir(parents=True)
    folder.write_info(
        {
            "status": "complete", "spec": asdict(spec), "samples": len(scores), "sessions": [],
            "task": {
                "scenario": "general", "group": "qa", "metric": "accuracy", "kind": "math",
                "graded_version": 1, "macro_over": "property" if tags else "",
            },
            "method": {"reference": False}, "notes": [], "provenance": {},
        }
    )  # fmt: skip
    folder.append_records(
        Record(
            run_id=spec.run_id,
            sample_id=f"q{i}",
            output=Output(text="x"),
            score=None if score is None else Score(value=score, answer="x"),
            error="boom" if score is None else None,
            seconds=0.0,
            tags={"property": tags[i]} if tags else {},
        )
        for i, score in enumerate(scores)
    )
    return folder


def pair(
    root: Path, scores: list[float | None], without: list[float | None], **changes: Any
) -> Pair:
    empty = {"method_config": {"control": "empty"}}
    return read_pair(write(root, scores, **changes), write(root, without, **{**changes, **empty}))


def line_of(lines: list[Line], scope: str, variant: str = "bank") -> Line:
    [line] = [x for x in lines if (x.scope, x.variant) == (scope, variant)]
    return line


def test_gain_is_the_score_with_the_bank_minus_the_score_without(tmp_path: Path) -> None:
    made = pair(tmp_path, [1, 1, 1, 0], [1, 0, 0, 0])
    [line] = ablation_lines({"bank": [made]}, tasks={"a": "general"}, seeds=[1])
    assert (line.score, line.without, line.gain) == (0.75, 0.25, 0.5)
    assert (line.n, line.differing) == (4, 2)
    assert line.low == 0.0
    assert line.high == 1.0
    table = ablation_table("t", [line])
    assert table.rows == (("a", "bank", 4, "75.0", "25.0", "+50.0 [+0.0, +100.0]"),)
    assert any("Fewer than 10 samples" in note for note in table.notes)


def test_a_mean_over_tasks_weighs_each_task_the_same(tmp_path: Path) -> None:
    pairs = [
        pair(tmp_path, [1, 1], [0, 0]),
        pair(tmp_path, [0, 0, 0, 1], [0, 1, 0, 1], task="b"),
        pair(tmp_path, [1, 1, 1], [1, 1, 1], task="c"),
    ]
    tasks = {"a": "general", "b": "general", "c": "recommendation"}
    lines = ablation_lines({"bank": pairs}, tasks=tasks, seeds=[1])
    assert [line.scope for line in lines] == ["a", "b", "c", "mean: general", "mean: all tasks"]
    assert line_of(lines, "b").gain == -0.25
    general = line_of(lines, "mean: general")
    assert (general.score, general.without) == (0.625, 0.25)
    assert general.gain == pytest.approx((1.0 - 0.25) / 2)
    assert line_of(lines, "mean: all tasks").gain == pytest.approx((1.0 - 0.25 + 0.0) / 3)


def test_a_task_that_averages_over_properties_does_so_in_its_gain(tmp_path: Path) -> None:
    made = pair(tmp_path, [1, 1, 0, 0], [0, 0, 0, 1], tags=["x", "x", "x", "y"])
    [line] = ablation_lines({"bank": [made]}, tasks={"a": "general"}, seeds=[1])
    # Property x: 2/3 against 0; property y: 0 against 1.
    assert line.score == pytest.approx(1 / 3)
    assert line.without == 0.5
    assert line.gain == pytest.approx(1 / 3 - 0.5)


def test_the_seeds_of_a_sample_are_averaged_before_the_interval(tmp_path: Path) -> None:
    pairs = [
        pair(tmp_path, [1, 0], [0, 0], seed=1),
        pair(tmp_path, [1, 1], [0, 1], seed=2),
    ]
    [line] = ablation_lines({"bank": pairs}, tasks={"a": "general"}, seeds=[1, 2])
    assert (line.n, line.gain, line.score) == (2, 0.5, 0.75)
    assert (line.low, line.high) == (0.0, 1.0)


def test_the_interval_is_that_of_the_paired_differences(tmp_path: Path) -> None:
    from scipy.stats import bootstrap

    rng = np.random.default_rng(5)
    scores, without = rng.random(40), rng.random(40)
    made = pair(tmp_path, list(scores), list(without))
    [line] = ablation_lines({"bank": [made]}, tasks={"a": "general"}, seeds=[1])
    theirs = bootstrap(
        (scores - without,), np.mean, method="percentile", n_resamples=20_000, rng=1
    ).confidence_interval
    assert line.low == pytest.approx(theirs.low, abs=0.01)
    assert line.high == pytest.approx(theirs.high, abs=0.01)


def test_no_difference_anywhere_is_said_and_not_shown_as_certainty(tmp_path: Path) -> None:
    made = pair(tmp_path, [1, 0, 1], [1, 0, 1])
    [line] = ablation_lines({"bank": [made]}, tasks={"a": "general"}, seeds=[1])
    table = ablation_table("t", [line])
    assert table.rows[0][-1] == "+0.0 [none differ]"
    assert any(note.startswith("none differ") for note in table.notes)


def test_a_run_with_an_error_or_a_missing_one_has_no_gain(tmp_path: Path) -> None:
    broken = pair(tmp_path, [1, None], [0, 0])
    lines = ablation_lines(
        {"bank": [broken], "gone": []}, tasks={"a": "general", "b": "general"}, seeds=[1]
    )
    assert all((x.score, x.without, x.gain) == (None, None, None) for x in lines)
    table = ablation_table("t", lines)
    assert table.rows[0][2:] == (None, None, None, None)
    assert any(note.startswith("-:") for note in table.notes)


def test_with_many_tasks_the_table_shows_means_and_the_lines_show_all(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d", "e"]
    pairs = [pair(tmp_path, [1, 0], [0, 0], task=name) for name in names]
    tasks = {**dict.fromkeys(names[:4], "general"), "e": "recommendation"}
    lines = ablation_lines({"bank": pairs}, tasks=tasks, seeds=[1])
    assert {line.scope for line in lines} > set(names)
    table = ablation_table("t", lines)
    assert [row[0] for row in table.rows] == ["e", "mean: general", "mean: all tasks"]
    assert table.rules == (1, 2)


def test_two_runs_on_other_samples_are_no_pair(tmp_path: Path) -> None:
    first = write(tmp_path, [1, 0])
    other = write(tmp_path, [1, 0], data={"checksums": {"test": "1" * 64}})
    with pytest.raises(RecordError, match="not asked the same samples"):
        read_pair(first, other)


def test_the_table_comes_as_markdown_and_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = pair(tmp_path, [1, 1, 1, 0], [1, 0, 0, 0])
    table = ablation_table("Ablation", ablation_lines(
        {"bank": [made]}, tasks={"a": "general"}, seeds=[1]
    ))  # fmt: skip
    print_table(table, width=120)
    for text in (markdown_table(table), capsys.readouterr().out):
        assert "+50.0 [+0.0, +100.0]" in text
        assert "Ablation" in text


@pytest.mark.parametrize("strata", [[], [(1.0, [])], [(1.0, [2.0])], [(1.0, [float("nan")])]])
def test_a_gain_of_nothing_or_of_no_scores_is_refused(strata: Any) -> None:
    with pytest.raises(ConfigError):
        paired_gain(strata)
