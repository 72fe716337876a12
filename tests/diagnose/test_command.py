import json

import pytest
from typer.testing import CliRunner

from expbench.cli import app
from expbench.diagnose.worlds import KEYS
from expbench.errors import ConfigError


def invoke(*words: str) -> str:
    done = CliRunner().invoke(app, ["diagnose", *words], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_json_holds_rates_intervals_seeds_and_findings() -> None:
    text = invoke("few_shot", "--model", "fake", "--seed", "0,4", "--set", "k=2", "--json")
    value = json.loads(text)
    assert (value["method"], value["protocol"], value["backbone"]) == ("few_shot", "text", "fake")
    assert value["settings"] == {"k": "2"}
    assert set(value["accuracy"]) == {"none", "empty", "shuffled", "random"}
    own = value["accuracy"]["none"]
    assert own["low"] <= own["value"] <= own["high"]
    assert own["n"] == sum(seed["accuracy"]["none"]["n"] for seed in value["seeds"])
    assert own["n"] % KEYS == 0
    assert [seed["seed"] for seed in value["seeds"]] == [0, 4]
    assert value["hit"]["value"] == 0.25
    assert value["retrieved"] == 2
    assert value["gate"] is None
    assert all(finding["text"].endswith(".") for finding in value["findings"])


def test_the_table_fits_80_columns_and_the_verdicts_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    text = invoke("few_shot", "--model", "fake")
    table, verdicts = text.split("✗", 1)
    for words in ("the world's own experience", "another world's experience", "seed 2", "top 4"):
        assert words in table
    assert max(map(len, table.splitlines())) <= 80
    assert "…" not in table
    assert "The search is blind" in verdicts


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("direct",), "does not use experience"),
        (("few_shot", "--mode", "grop"), "allowed: supervised, grpo"),
        (("few_shot", "--mode", "grpo"), "Leave --mode out"),
        (("expweaver", "--model", "fake"), "leave --model out"),
        (("few_shot", "--seed", "x"), "whole numbers"),
    ],
)
def test_what_cannot_be_done_is_refused_before_any_work(
    words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        invoke(*words)
