import pytest

from expbench.errors import DataError
from expbench.molecules import (
    canonical,
    canonical_no_stereo,
    conflicts,
    is_valid,
    morgan_bits,
    overlap,
    parent,
    scaffold,
    scaffold_split,
)

ROWS = ["Cc1ccccc1", "CCO", "CCc1ccccc1", "C1CCCCC1", "OC1CCCCC1", "c1ccncc1C", "CCN", "NCc1ccccc1"]


def test_an_invalid_molecule_is_false_or_an_error_and_prints_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    for smiles in ("c1ccnc1", "C(", "", "CN(C)(C)(C)C", "\ud800", "C\x00C"):
        assert not is_valid(smiles)
        for function in (canonical, canonical_no_stereo, parent, scaffold, morgan_bits):
            with pytest.raises(DataError, match="not a valid SMILES"):
                function(smiles)
    assert capfd.readouterr() == ("", "")


def test_mirror_images_differ_and_are_one_without_stereo() -> None:
    left, right = "C[C@H](N)C(=O)O", "C[C@@H](N)C(=O)O"
    assert canonical(left) != canonical(right)
    assert canonical_no_stereo(left) == canonical_no_stereo(right)


def test_a_salt_shares_parent_and_scaffold_with_its_acid_and_base() -> None:
    assert parent("[Na+].[O-]C(=O)c1ccccc1") == parent("OC(=O)c1ccccc1")
    assert parent("C[NH3+].[Cl-]") == parent("CN")
    assert scaffold("[Na+].[O-]C(=O)c1ccccc1") == "c1ccccc1"


def test_a_mapped_molecule_is_the_same_molecule() -> None:
    assert canonical("[H:7][O:1][CH2:2][CH3:3]") == canonical("CCO")


def test_no_scaffold_and_no_parent_is_on_both_sides_of_a_split() -> None:
    splits = scaffold_split(ROWS)
    for name in ("train", "test"):
        assert name in splits
    sides = {(scaffold(s), side) for s, side in zip(ROWS, splits, strict=True)}
    assert len(sides) == len({scaffold(s) for s in ROWS})
    assert splits.count("train") <= len(ROWS) // 2


def test_a_split_does_not_depend_on_the_order_of_the_rows() -> None:
    forward = dict(zip(ROWS, scaffold_split(ROWS), strict=True))
    backward = dict(zip(ROWS[::-1], scaffold_split(ROWS[::-1]), strict=True))
    assert forward == backward


def test_a_group_that_does_not_fit_leaves_room_for_a_smaller_one() -> None:
    rows = ["Cc1ccccc1"] * 3 + ["C1CCCCC1"]
    assert scaffold_split(rows, 0.25) == ["test", "test", "test", "train"]


def test_overlap_finds_another_spelling_and_a_salt() -> None:
    assert overlap(["CC(=O)O"], ["CCN", "OC(C)=O", "CC(=O)[O-].[K+]"]) == [1, 2]


def test_conflicts_are_counted_apart_from_duplicates() -> None:
    found = conflicts([("CCO", 1), ("OCC", 0), ("CCO", 1), ("CCN", 0), ("NCC", 0)])
    assert (found.distinct_molecules, found.conflicting_molecules) == (2, 1)
    assert found.exact_duplicates == 1


def test_a_fingerprint_depends_on_the_molecule_and_not_on_its_spelling_or_mirror_image() -> None:
    one, same, other = map(morgan_bits, ("OCC", "[H:7][O:1][CH2:2][CH3:3]", "NCC"))
    assert (one == same).all() and (one != other).any()
    left, right = morgan_bits("C[C@H](N)C(=O)O"), morgan_bits("C[C@@H](N)C(=O)O")
    assert (left == right).all()


def test_a_fingerprint_has_a_bit_for_every_fragment_up_to_its_radius() -> None:
    # All six atoms look alike: one fragment a radius, until it holds the whole ring.
    counts = [int(morgan_bits("C1CCCCC1", radius=radius).sum()) for radius in range(5)]
    assert counts == [1, 2, 3, 4, 4]
    small, large = (morgan_bits("CC(N)C(=O)O", radius=radius) for radius in (1, 2))
    assert (small <= large).all() and small.sum() < large.sum()
    assert morgan_bits("CCO", bits=64).shape == (64,)
    assert set(morgan_bits("CCO").tolist()) == {0, 1}
