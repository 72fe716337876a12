"""Rows of the chemistry task."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from expbench import suites
from expbench.errors import DataError
from expbench.molecules import canonical, scaffold
from expbench.suites import TaskData
from expbench.tasks.chem_tdc import FILE_IDS, QUESTIONS, TASK

RINGS = ["c1ccccc1", "C1CCCCC1", "c1ccncc1", "C1CCNCC1", "c1ccoc1", "c1ccsc1", "C1CC1", "C1CCOC1"]


def molecule(smiles: str, **changes: Any) -> dict[str, Any]:
    return {"Drug_ID": None, "Drug": smiles, "Y": 1, "property": "hERG", **changes}


def load(folder: Path, **files: Sequence[Mapping[str, Any]]) -> TaskData:
    place = folder / "chem_tdc"
    place.mkdir(exist_ok=True)
    for name, rows in files.items():
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (place / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return suites.load(TASK, data_dir=folder)


def complaint(folder: Path, *rows: Mapping[str, Any]) -> str:
    with pytest.raises(DataError) as caught:
        load(folder, all=[molecule("CCO"), *rows])
    return str(caught.value)


def test_every_property_has_a_file_and_a_question() -> None:
    assert FILE_IDS.keys() == QUESTIONS.keys()
    assert len(FILE_IDS) == len(set(FILE_IDS.values())) == len(set(QUESTIONS.values())) == 8


def test_no_scaffold_is_on_both_sides_whatever_the_property(tmp_path: Path) -> None:
    rows = [
        molecule("C" * size + ring, property=name)
        for ring in RINGS
        for size, name in enumerate(["hERG", "AMES", "DILI"], 1)
    ]
    data = load(tmp_path, train=rows[:9], test=rows[9:])
    sides = [{scaffold(s.features["smiles"]) for s in split} for split in (data.train, data.test)]
    assert sides[0] and sides[1] and not sides[0] & sides[1]
    again = load(tmp_path, train=rows[9:], test=rows[:9])
    assert again.test == data.test


def test_the_question_shows_the_published_smiles_and_features_the_canonical_one(
    tmp_path: Path,
) -> None:
    data = load(tmp_path, a=[molecule("OCC"), molecule("C1=CC=CC=C1C")])
    shown = {s.features["smiles"]: s.input for s in data.train + data.test}
    assert shown.keys() == {"CCO", "Cc1ccccc1"}
    assert shown["CCO"] == f"{QUESTIONS['hERG']}\nSMILES: OCC"


def test_a_molecule_with_both_labels_is_dropped_and_counted(tmp_path: Path) -> None:
    rows = [
        molecule("CCO"),
        molecule("OCC", Y=0),
        molecule("CCO", property="AMES"),
        molecule("Cc1ccccc1"),
        molecule("Cc1ccccc1"),
    ]
    data = load(tmp_path, a=rows)
    left = {(s.features["smiles"], s.tags["property"]) for s in data.train + data.test}
    assert left == {("CCO", "AMES"), (canonical("Cc1ccccc1"), "hERG")}
    assert any("2 rows" in said and "1 questions" in said for said in data.notes)


def test_ids_do_not_need_a_drug_id(tmp_path: Path) -> None:
    data = load(tmp_path, a=[molecule("CCO"), molecule("Cc1ccccc1", Drug_ID="2265.0")])
    ids = {sample.id for sample in data.train + data.test}
    assert len(ids) == 2
    assert all(name.startswith("hERG-") for name in ids)


def test_salts_and_labels_become_yes_and_no(tmp_path: Path) -> None:
    data = load(tmp_path, a=[molecule("CC(=O)[O-].[Na+]", Y=0), molecule("Cc1ccccc1", Y=1.0)])
    assert {s.target[0] for s in data.train + data.test} == {"Yes", "No"}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"Drug": "not a molecule"}, "'not a molecule', which is not a valid SMILES"),
        ({"Drug": ""}, "not a valid SMILES"),
        ({"Drug": "C1CC"}, "not a valid SMILES"),
        ({"Y": 2}, "'Y' is 2, not 0 or 1"),
        ({"Y": "maybe"}, "'Y' is 'maybe'"),
        ({"Y": None}, "'Y' is null"),
        ({"property": "Caco2_Wang"}, "Known: HIA_Hou"),
        ({"Drug": None}, "'Drug' is null"),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, changes: Mapping[str, Any], said: str) -> None:
    message = complaint(tmp_path, molecule("Cc1ccccc1", **changes))
    assert "all.jsonl, line 2" in message
    assert said in message
