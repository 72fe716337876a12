import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from expbench.core import NoConfig, Sample
from expbench.errors import ConfigError, DataError
from expbench.graders.chem import grade_chem
from expbench.molecules import morgan_bits
from expbench.registry import get_task
from expbench.suites import load
from expbench_methods.majority.method import Majority
from expbench_methods.morgan_forest.method import MorganForest, MorganForestConfig

ACIDS = ("CC(=O)O", "CCC(=O)O", "CCCC(=O)O", "OC(=O)c1ccccc1", "CC(C)C(=O)O")
AMINES = ("CN", "CCN", "CCCN", "Nc1ccccc1", "CC(C)N")


def molecule(smiles: str, label: str = "Yes", name: str = "AMES", task: str = "chem_tdc") -> Sample:
    return Sample(
        id=f"{name}-{smiles}",
        task=task,
        kind="chem",
        input=f"Is it mutagenic?\nSMILES: {smiles}",
        features={"smiles": smiles, "property": name},
        target=(label,),
    )


def acids_and_amines(acid: str = "Yes", amine: str = "No", name: str = "AMES") -> list[Sample]:
    return [molecule(s, acid, name) for s in ACIDS] + [molecule(s, amine, name) for s in AMINES]


def fitted(*train: Sample, seed: int = 0, **config: int) -> MorganForest:
    method = MorganForest(MorganForestConfig(**{"trees": 25, **config}), None, seed)
    method.fit(train, (), lambda sample, output: 0.0)
    return method


def texts(method: MorganForest, *asked: Sample) -> list[str]:
    return [output.text for output in method.answer([sample.question() for sample in asked])]


def test_a_molecule_is_answered_like_the_train_molecules_with_its_fragments() -> None:
    method = fitted(*acids_and_amines())
    asked = [molecule("CCCCC(=O)O", "Yes"), molecule("CCCCN", "No")]
    assert texts(method, *asked) == ["Answer: Yes", "Answer: No"]


def test_the_answer_is_in_the_words_of_the_task_and_the_grader_reads_it() -> None:
    task, method = get_task("chem_tdc"), fitted(*acids_and_amines())
    for sample in (molecule("CCCCC(=O)O", "Yes"), molecule("CCCCN", "No")):
        [output] = method.answer([sample.question()])
        assert output.text == task.gold(sample)
        assert grade_chem(sample, output).value == 1.0
        assert (output.stop_reason, output.segments) == ("none", ())


def test_every_property_and_task_has_a_forest_of_its_own() -> None:
    other = [replace(s, task="other") for s in acids_and_amines("No", "Yes")]
    method = fitted(*acids_and_amines(), *acids_and_amines("No", "Yes", name="DILI"), *other)
    acid = "CCCCC(=O)O"
    asked = [molecule(acid), molecule(acid, name="DILI"), molecule(acid, task="other")]
    assert texts(method, *asked) == ["Answer: Yes", "Answer: No", "Answer: No"]
    # What is learnt beside a property does not move its forest.
    alone = fitted(*acids_and_amines()).forests["chem_tdc", "AMES"]
    bits = np.stack([morgan_bits(s) for s in (acid, "CCO", "CNC")])
    beside = method.forests["chem_tdc", "AMES"]
    assert (alone.predict_proba(bits) == beside.predict_proba(bits)).all()


def test_a_forest_gives_the_mean_of_its_trees() -> None:
    """The plain way: every tree by itself, the mean of their shares, a tie is a No."""
    asked = [molecule(s) for s in ("CCCCC(=O)O", "CCCCN", "NCC(=O)O", "CCO", "c1ccccc1", "C")]
    for trees in (1, 2, 7):
        method = fitted(*acids_and_amines(), trees=trees)
        forest = method.forests["chem_tdc", "AMES"]
        assert len(forest.estimators_) == trees
        wanted = []
        for sample in asked:
            bits = morgan_bits(sample.features["smiles"])[None]
            yes = np.mean([tree.predict_proba(bits)[0, 1] for tree in forest.estimators_])
            wanted.append("Answer: Yes" if yes > 0.5 else "Answer: No")
        assert texts(method, *asked) == wanted


def test_settings_reach_the_fingerprint_and_the_forest() -> None:
    method = fitted(*acids_and_amines(), radius=0, bits=64, trees=3, min_samples_leaf=4)
    forest = method.forests["chem_tdc", "AMES"]
    assert (forest.n_features_in_, forest.n_estimators, forest.min_samples_leaf) == (64, 3, 4)
    leaves = [tree.tree_.weighted_n_node_samples.min() for tree in forest.estimators_]
    assert min(leaves) >= 4


def test_atoms_alone_cannot_tell_apart_what_fragments_can() -> None:
    one, other = molecule("CC(C)CCC", "Yes"), molecule("CC(C)CC(C)C", "No")
    near = texts(fitted(one, other, radius=0), one, other)
    assert near[0] == near[1]
    assert texts(fitted(one, other, radius=2), one, other) == ["Answer: Yes", "Answer: No"]


def test_the_seed_decides_the_forest() -> None:
    bits = np.stack([morgan_bits(s) for s in ("CCO", "CNC", "NCC(=O)O", "c1ccccc1O")])

    def shares(seed: int) -> Any:
        forest = fitted(*acids_and_amines(), seed=seed).forests["chem_tdc", "AMES"]
        return forest.predict_proba(bits)

    assert (shares(3) == shares(3)).all()
    assert (shares(3) != shares(4)).any()
    assert (shares(-1) == shares(-1)).all()


def test_votes_are_added_by_one_thread_in_one_order() -> None:
    assert fitted(*acids_and_amines()).forests["chem_tdc", "AMES"].n_jobs == 1


def test_a_property_without_train_molecules_gets_no_answer_and_a_note() -> None:
    method = fitted(*acids_and_amines())
    assert texts(method, molecule("CCO", name="hERG"), molecule("CCN")) == ["", "Answer: No"]
    assert method.notes == [
        "Train molecules by property: AMES (10). A question on another property gets no answer."
    ]
    assert texts(fitted(), molecule("CCO")) == [""]
    assert "property: none." in fitted().notes[0]


@pytest.mark.parametrize("label", ["Yes", "No"])
def test_a_property_with_one_label_gets_it_always_and_a_note(label: str) -> None:
    method = fitted(molecule("CCO", label), molecule("CCN", label))
    assert texts(method, molecule("CCO"), molecule("c1ccccc1")) == [f"Answer: {label}"] * 2
    assert method.notes[1:] == [
        f"Every train molecule of AMES is a {label}, and so is every answer."
    ]


@pytest.mark.parametrize("smiles", ["", "not a molecule", "C1CC", "n1cccc1", "C\x00C", "\ud7ff"])
def test_an_unreadable_molecule_is_left_out_of_training_and_gets_no_answer(smiles: str) -> None:
    method = fitted(*acids_and_amines(), molecule(smiles, "Yes"))
    assert method.notes[0] == "Left out 1 train molecules whose SMILES cannot be read."
    assert texts(method, molecule(smiles), molecule("CCN")) == ["", "Answer: No"]
    plain = fitted(*acids_and_amines()).forests["chem_tdc", "AMES"]
    bits = morgan_bits("CNC")[None]
    beside = method.forests["chem_tdc", "AMES"]
    assert (plain.predict_proba(bits) == beside.predict_proba(bits)).all()


def test_samples_of_other_kinds_are_passed_over_and_fitting_again_forgets() -> None:
    sum_up = Sample(id="1", task="gsm8k", kind="math", input="1+1?", target=("2",))
    method = fitted(sum_up, *acids_and_amines(), sum_up)
    assert list(method.forests) == [("chem_tdc", "AMES")]
    method.fit([sum_up], (), lambda sample, output: 0.0)
    assert not method.forests
    assert len(method.notes) == 1


@pytest.mark.parametrize("features", [{"smiles": "CCO"}, {"property": "AMES"}, {"smiles": None}])
def test_a_question_without_molecule_or_property_is_an_error_that_names_the_feature(
    features: Mapping[str, Any],
) -> None:
    bare = replace(molecule("CCO"), features=features)
    missing = "property" if features.get("smiles") else "smiles"
    for use in (lambda: fitted(*acids_and_amines()).answer([bare]), lambda: fitted(bare)):
        with pytest.raises(DataError, match=missing):
            use()


@pytest.mark.parametrize(
    ("name", "value"), [("radius", -1), ("bits", 0), ("trees", 0), ("min_samples_leaf", 0)]
)
def test_a_setting_below_its_least_value_is_an_error_that_names_it(name: str, value: int) -> None:
    with pytest.raises(ConfigError, match=rf"morgan_forest\.{name} is {value}"):
        MorganForestConfig(**{name: value})


def test_naming_the_method_does_not_import_the_forest() -> None:
    code = (
        "import sys; from expbench.registry import get_method; get_method('morgan_forest');"
        "sys.exit(any(name in sys.modules for name in ('sklearn', 'rdkit', 'numpy')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.slow
def test_on_real_molecules_fragments_beat_the_class_balance(real_data: Path) -> None:
    """The scaffolds of the test split are new; 76 % with 500 trees, 63 % for the majority."""
    data = load(get_task("chem_tdc"), data_dir=real_data)
    balance = Majority(NoConfig(), None, 1)
    balance.fit(data.train, (), lambda sample, output: 0.0)
    forest = fitted(*data.train, trees=50)

    def accuracy(method: Majority | MorganForest) -> float:
        outputs = method.answer([sample.question() for sample in data.test])
        return float(
            np.mean([grade_chem(s, o).value for s, o in zip(data.test, outputs, strict=True)])
        )

    assert len(data.test) > 1000
    assert accuracy(forest) > accuracy(balance) + 0.05
