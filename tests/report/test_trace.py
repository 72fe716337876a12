"""From records to a `Trace`, and a `Trace` in the terminal."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from expbench.errors import RecordError
from expbench.report.trace import Trace, read_trace
from expbench.report.trace_text import print_trace
from expbench.report.visible import visible
from tests.report.traces import HOSTILE, bank, record, token


def read(*records: Any, questions: dict[str, str] | None = None) -> Trace:
    return read_trace(records, run_id="abc", title="m on t", questions=questions or {})


def printed(trace: Trace, *, colour: bool = False, **settings: Any) -> str:
    file = io.StringIO()
    console = Console(
        file=file, width=120, force_terminal=colour, color_system="truecolor" if colour else None
    )
    print_trace(trace, console=console, **settings)
    return file.getvalue()


TWO = record(
    "q1",
    bank("a", "b", "c"),
    token("x", ["a", "b"], [0.75, 0.25], gate=0.4),
    token("y", ["b", "c"], [0.5, 0.5], gate=0.2),
)


def test_an_influence_is_the_mean_of_weight_times_gate_over_all_tokens() -> None:
    trace = read(TWO)
    [answer] = trace.answers
    found = answer.influences()
    assert [(trace.entries[i.entry].id, i.tokens) for i in found] == [("a", 1), ("b", 2), ("c", 1)]
    assert [i.mean for i in found] == pytest.approx([0.15, 0.1, 0.05])
    assert [i.peak for i in found] == pytest.approx([0.3, 0.1, 0.1])
    assert answer.mean_gate == pytest.approx(0.3)
    assert trace.widest_gate == 0.4


def test_an_experience_retrieved_twice_for_one_token_counts_with_the_sum_of_its_weights() -> None:
    [answer] = read(record("q", bank("a"), token("x", ["a", "a"], [0.5, 0.25], gate=0.4))).answers
    [influence] = answer.influences()
    assert influence.mean == influence.peak == pytest.approx(0.3)
    assert influence.tokens == 1


def test_answers_share_one_table_of_experiences() -> None:
    other = record("q2", bank("c", "d"), token("z", ["c", "d"], [0.5, 0.5]))
    trace = read(TWO, other)
    assert [e.id for e in trace.entries] == ["a", "b", "c", "d"]
    assert trace.answers[1].tokens[0].entries == (2, 3)


def test_records_without_trace_are_left_out_and_failed_grades_kept() -> None:
    trace = read(record("bare"), record("broken", bank(), token("x"), error="no grader"))
    [answer] = trace.answers
    assert (answer.sample_id, answer.score, answer.explanation) == ("broken", None, "no grader")


def test_an_experience_missing_from_the_bank_mapping_keeps_its_id() -> None:
    trace = read(record("q", bank("a"), token("x", ["lost"], [1.0])))
    assert (trace.entries[0].id, trace.entries[0].reward) == ("lost", None)
    assert "lost" in printed(trace)


@pytest.mark.parametrize(
    "damaged",
    [
        {"token": "x", "ids": ["a"], "weights": [], "gate": 0.1},
        {"token": "x", "ids": ["a"], "weights": [1.0]},
        {"token": "x", "ids": ["a"], "weights": [float("nan")], "gate": 0.1},
        {"token": "x", "ids": 3, "weights": [1.0], "gate": 0.1},
        {"token": "x", "ids": [], "weights": [], "gate": None},
        {"kind": "bank"},
        "not a mapping",
    ],
)
def test_a_damaged_trace_names_sample_and_token(damaged: Any) -> None:
    with pytest.raises(RecordError, match=r"sample 'q'.*at token 1"):
        read(record("q", bank("a"), token("fine"), damaged))


@given(st.text())
def test_visible_text_holds_nothing_a_terminal_obeys(text: str) -> None:
    shown = visible(text)
    assert not set(shown) & {*map(chr, range(9)), *"\x0b\x0c\r\x1b\0\x7f\x9b\u2028\u202e\u2066"}
    assert shown.count("\n") == text.count("\n")
    assert visible(shown) == shown
    shown.encode()


def test_the_text_view_lists_the_strongest_experiences_first() -> None:
    text = printed(read(TWO, questions={"q1": "What is it?"}))
    assert "What is it?" in text
    assert "xy" in text
    rows = [line.split()[1:6] for line in text.splitlines() if "gsm8k" in line]
    assert rows == [
        ["0.1500", "0.3000", "1", "0.5", "gsm8k:"],
        ["0.1000", "0.1000", "2", "0.5", "gsm8k:"],
        ["0.0500", "0.1000", "1", "0.5", "gsm8k:"],
    ]
    assert "and 2 more" in printed(read(TWO), top=1)


def test_a_wider_gate_has_a_stronger_colour_and_a_closed_one_has_none() -> None:
    def colour(gate: float) -> str:
        trace = read(record("q", bank(), token("WORD", gate=gate), token("widest", gate=0.9)))
        return printed(trace, colour=True).split("WORD")[0].split("│")[-1]

    assert "48;2" not in colour(0.0)
    assert "48;2;38;166;154" in colour(0.9)
    assert colour(0.3) != colour(0.6)


def test_hostile_text_is_printed_as_text() -> None:
    trace = read(
        record("[red]q", bank("[b]a", summary=HOSTILE), token(HOSTILE, ["[b]a"], [1.0])),
        questions={"[red]q": HOSTILE},
    )
    text = printed(trace)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[red]q" in text
    assert "[b]a" in text


def test_a_trace_of_a_text_method_is_printed_as_json_lines() -> None:
    text = printed(read(record("q", {"shots": ["t1", "t2"]}, text="The answer.")))
    assert '{"shots": ["t1", "t2"]}' in text
    assert "The answer." in text


def test_a_ranking_shows_the_state_of_its_prompt() -> None:
    text = printed(
        read(record("q", bank("a"), token("", ["a"], [1.0], gate=0.25), ranking=(2, 0, 1)))
    )
    assert "the prompt's last state" in text
    assert "ranking: 3, 1, 2" in text
    assert "0.2500" in text


def test_empty_answers_and_empty_banks_are_said_in_words() -> None:
    text = printed(read(record("nothing", bank()), record("closed", bank(), token("x", gate=0.0))))
    assert "(empty)" in text
    assert "No experience was retrieved" in text
    assert "2 shown of 2 traced answers" in text
    assert "1 shown of 2 traced answers" in printed(
        read(record("a", bank()), record("b", bank())), limit=1
    )
