from collections.abc import Mapping
from typing import Any

import pytest

from expbench.core import Output
from expbench.diagnose.findings import LATENT_CONTROLS, Control, Diagnosis, Rate, Reading
from expbench.diagnose.traces import read_trace
from expbench.stats import wilson_interval


def marks(right: int, n: int = 64) -> tuple[bool, ...]:
    return tuple(i < right for i in range(n))


def diagnosis(rights: Mapping[Control, int], **reading: Any) -> Diagnosis:
    rows = {control: marks(right) for control, right in rights.items()}
    return Diagnosis(
        method="m",
        protocol="latent",
        backbone="toy",
        mode="supervised",
        settings={},
        readings=(Reading(seed=0, marks=rows, **reading),),
    )


def texts(found: Diagnosis, topic: str) -> list[str]:
    return [finding.text for finding in found.findings if finding.topic == topic]


GOOD: dict[Control, int] = {**dict.fromkeys(LATENT_CONTROLS, 8), "none": 62}


def test_a_method_that_reads_its_bank_has_good_findings_alone() -> None:
    found = diagnosis(GOOD, hits=marks(64), places=4.0, gates=(0.5,) * 64)
    assert len(found.findings) == 1 + 4 + 1 + 1
    assert all(finding.good for finding in found.findings)
    assert "97 %" in texts(found, "learning")[0]


def test_a_score_that_does_not_fall_with_a_shuffled_bank_is_said_first_and_plainly() -> None:
    found = diagnosis({**GOOD, "shuffled": 61})
    [bad] = [finding for finding in found.findings if not finding.good]
    assert bad.text.startswith("Does not read its bank: the score does not fall")
    assert "another world's experience (0.97 to 0.95)" in bad.text


def test_a_score_that_falls_halfway_is_no_chance() -> None:
    found = diagnosis({**GOOD, "random": 30})
    [bad] = [finding for finding in found.findings if not finding.good]
    assert "but not to chance" in bad.text


def test_a_fall_that_a_few_questions_cannot_show_is_not_called_none() -> None:
    rows: dict[Control, tuple[bool, ...]] = {"none": marks(5, 8), "empty": marks(1, 8)}
    found = Diagnosis(
        method="m",
        protocol="text",
        backbone="b",
        mode="none",
        settings={},
        readings=(Reading(seed=0, marks=rows),),
    )
    assert texts(found, "reading") == [
        "Too few questions to tell whether the score falls with no experience (0.62 to 0.12)."
    ]


def test_without_learning_the_controls_say_nothing() -> None:
    found = diagnosis({control: 9 for control in GOOD})
    assert texts(found, "reading") == []
    assert texts(found, "learning")[0].startswith("Learnt nothing")


def test_partly_learnt_is_told_from_learnt() -> None:
    found = diagnosis({**GOOD, "none": 40})
    assert texts(found, "learning") == [
        "Answers only 62 % of the questions about unseen worlds (chance: 12.5 %)."
    ]


@pytest.mark.parametrize(
    ("right", "hits", "places", "start", "good"),
    [
        (30, 64, 4.0, "Finds it and does not use it", False),
        (30, 33, 4.0, "The search is blind", False),
        (62, 62, 4.0, "Retrieval", True),
        (40, 50, 4.0, "Retrieval", False),
        (62, 64, 8.0, "Retrieval", True),
    ],
)
def test_retrieval_is_judged_against_drawing_at_random(
    right: int, hits: int, places: float, start: str, good: bool
) -> None:
    found = diagnosis({**GOOD, "none": right}, hits=marks(hits), places=places)
    [finding] = [f for f in found.findings if f.topic == "retrieval"]
    assert finding.text.startswith(start)
    assert finding.good is good


def test_a_shut_gate_is_named() -> None:
    found = diagnosis(GOOD, gates=(0.001, 0.003))
    assert "shut" in texts(found, "gate")[0]
    assert found.gate == pytest.approx(0.002)


def test_seeds_are_pooled_question_by_question() -> None:
    one = diagnosis(GOOD).readings[0]
    two = Reading(seed=1, marks={c: marks(0) for c in GOOD}, hits=marks(3, 4), places=2.0)
    found = Diagnosis(
        method="m",
        protocol="text",
        backbone="b",
        mode="none",
        settings={},
        readings=(one, two),
    )
    rate = found.rates["none"]
    assert (rate.right, rate.n) == (62, 128)
    assert (rate.low, rate.high) == wilson_interval(62, 128)
    assert found.hit == Rate.of(marks(3, 4))


def test_traces_of_both_kinds_name_samples() -> None:
    latent = Output(
        trace=(
            {"kind": "bank", "entries": {"e1": {"sample_id": "s1"}, "e2": {"sample_id": "s2"}}},
            {"token": "a", "ids": ["e2", "e1"], "weights": [0.9, 0.1], "gate": 0.25},
            {"token": "b", "ids": ["e1"], "weights": [1.0], "gate": 0.5},
        )
    )
    seen = read_trace(latent)
    assert seen is not None
    assert (seen.ids, seen.gate) == (("s2", "s1"), 0.25)
    text = read_trace(Output(trace=({"query": "q", "hits": [{"id": "s1", "score": 2.0}, "s3"]},)))
    assert text is not None
    assert (text.ids, text.gate) == (("s1", "s3"), None)
    assert read_trace(Output(trace=({"query": "q"},))) is None
