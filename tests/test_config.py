"""Settings from the command line: typed by annotations, refused by name."""

from dataclasses import dataclass
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.config import build_config, parse_settings
from expbench.errors import ConfigError, UnknownName


@dataclass(frozen=True, kw_only=True)
class Settings:
    k: int = 4
    rate: float = 0.5
    name: str = "a"
    on: bool = False
    mode: Literal["fast", "slow"] = "fast"
    limit: int | None = None


def build(**values: str) -> Settings:
    made = build_config(Settings, values, method="m")
    assert isinstance(made, Settings)
    return made


def test_values_get_the_type_of_their_field() -> None:
    made = build(k="8", rate="1e-3", name="x=y", on="true", mode="slow", limit="3")
    assert made == Settings(k=8, rate=0.001, name="x=y", on=True, mode="slow", limit=3)
    assert build(limit="none") == Settings()


@pytest.mark.parametrize(
    ("key", "value"), [("k", "4.5"), ("k", ""), ("rate", "fast"), ("on", "maybe"), ("mode", "mid")]
)
def test_a_value_of_the_wrong_type_names_the_setting(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=rf"m\.{key} is '{value}'"):
        build(**{key: value})


def test_an_unknown_setting_gets_a_did_you_mean() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'rate'"):
        build(raet="1")


def test_a_word_without_equals_sign_is_refused() -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_settings(["k"])


@given(st.from_regex(r"[a-z_]+", fullmatch=True), st.text())
def test_any_value_passes_through_parsing_unchanged_but_for_outer_space(
    key: str, value: str
) -> None:
    assert parse_settings([f"{key}={value}"]) == {key: value.strip()}
