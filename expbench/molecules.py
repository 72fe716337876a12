"""Identity, scaffolds and splits of molecules given as SMILES, through RDKit.

RDKit is imported on first use and its log is silent here: an invalid SMILES is an error or a False
of ours, not a line on the terminal. Canonical strings do not unite tautomers.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from expbench.core import Split
from expbench.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True)
class Conflicts:
    """How often rows name one molecule more than once."""

    distinct_molecules: int
    conflicting_molecules: int
    """Molecules with more than one label."""
    exact_duplicates: int
    """Rows beyond the first of a molecule whose rows all have one label."""


def is_valid(smiles: str) -> bool:
    """Tell whether RDKit can build the molecule: valences, aromatic rings, at least one atom.

    >>> is_valid("C[N+](C)(C)C"), is_valid("c1ccnc1"), is_valid("")
    (True, False, False)
    """
    return _parse(smiles) is not None


def canonical(smiles: str) -> str:
    """Canonical isomeric SMILES without atom maps; one string a molecule as drawn.

    Raises:
        DataError: the SMILES is invalid.

    >>> canonical("[H]OCC") == canonical("CCO")
    True
    """
    return _write(_molecule(smiles), stereo=True)


def canonical_no_stereo(smiles: str) -> str:
    """Canonical SMILES without stereo marks and isotopes.

    Raises:
        DataError: the SMILES is invalid.
    """
    return _write(_molecule(smiles), stereo=False)


@lru_cache(maxsize=65_536)
def parent(smiles: str) -> str:
    """Canonical SMILES of the largest fragment, neutralised: a salt and its acid are one parent.

    Raises:
        DataError: the SMILES is invalid.

    >>> parent("CC(=O)[O-].[Na+]") == parent("CC(=O)O")
    True
    """
    from rdkit.Chem.MolStandardize import rdMolStandardize
    from rdkit.rdBase import BlockLogs

    molecule = _molecule(smiles)
    with BlockLogs():
        largest = rdMolStandardize.LargestFragmentChooser().choose(molecule)
        return _write(rdMolStandardize.Uncharger().uncharge(largest), stereo=True)


@lru_cache(maxsize=65_536)
def scaffold(smiles: str) -> str:
    """Bemis-Murcko scaffold of the parent as SMILES without stereo; empty for acyclic molecules.

    Raises:
        DataError: the SMILES is invalid.

    Source: Bemis and Murcko, J. Med. Chem. 39 (1996) 2887.

    >>> scaffold("CCc1ccccc1"), scaffold("CCO")
    ('c1ccccc1', '')
    """
    from rdkit.Chem.Scaffolds.MurckoScaffold import GetScaffoldForMol
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        framework = GetScaffoldForMol(_molecule(parent(smiles)))  # type: ignore[no-untyped-call]
        return _write(framework, stereo=False)


def morgan_bits(smiles: str, *, radius: int = 2, bits: int = 2048) -> "NDArray[np.uint8]":
    """Morgan fingerprint of the molecule as drawn, without stereo: (bits,) of 0 and 1.

    Args:
        smiles: One molecule.
        radius: Bonds from an atom to the rim of a fragment; 2 is what is also called ECFP4.
        bits: Length; fragments whose hashes collide share a bit.

    Raises:
        DataError: the SMILES is invalid.

    Source: Rogers and Hahn, J. Chem. Inf. Model. 50 (2010) 742.

    >>> int(morgan_bits("CCO").sum()), bool((morgan_bits("OCC") == morgan_bits("CCO")).all())
    (6, True)
    """
    molecule = _molecule(smiles)
    array: NDArray[np.uint8] = _morgan(radius, bits).GetFingerprintAsNumPy(molecule)
    return array


def scaffold_split(smiles: Sequence[str], train_share: float = 0.5) -> list[Split]:
    """Assign every row to a split so that no scaffold, and so no parent, is on both sides.

    Groups go by size, largest first, ties by scaffold; a group goes to train while it still fits
    into `floor(train_share * rows)`, else to test. Acyclic molecules are one group. The result
    does not depend on the order of the rows.

    Raises:
        DataError: an invalid SMILES, or a share outside [0, 1].

    >>> scaffold_split(["Cc1ccccc1", "CCO", "CCc1ccccc1", "C1CCCCC1"])
    ['train', 'test', 'train', 'test']
    """
    if not 0.0 <= train_share <= 1.0:
        raise DataError(f"The train share is {train_share!r}; it must lie in [0, 1].")
    groups: dict[str, list[int]] = defaultdict(list)
    for row, text in enumerate(smiles):
        groups[scaffold(text)].append(row)
    splits: list[Split] = ["test"] * len(smiles)
    room = int(train_share * len(smiles))
    for _, rows in sorted(groups.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(rows) <= room:
            room -= len(rows)
            for row in rows:
                splits[row] = "train"
    return splits


def overlap(train: Iterable[str], test: Sequence[str]) -> list[int]:
    """Positions in `test` whose parent molecule is also in `train`, whatever the spelling.

    Raises:
        DataError: an invalid SMILES.

    >>> overlap(["CCOC(=O)c1ccccc1", "CCN"], ["O=C(OCC)c1ccccc1", "CCCl"])
    [0]
    """
    known = {parent(smiles) for smiles in train}
    return [row for row, smiles in enumerate(test) if parent(smiles) in known]


def conflicts(rows: Iterable[tuple[str, Hashable]]) -> Conflicts:
    """Count molecules with several labels apart from harmless duplicates; rows are (SMILES, label).

    Raises:
        DataError: an invalid SMILES.

    >>> conflicts([("CCO", 0), ("OCC", 1), ("CCN", 1), ("NCC", 1)])
    Conflicts(distinct_molecules=2, conflicting_molecules=1, exact_duplicates=1)
    """
    labels: dict[str, list[Hashable]] = defaultdict(list)
    for smiles, label in rows:
        labels[canonical(smiles)].append(label)
    several = [found for found in labels.values() if len(set(found)) > 1]
    return Conflicts(
        distinct_molecules=len(labels),
        conflicting_molecules=len(several),
        exact_duplicates=sum(len(f) - 1 for f in labels.values() if len(set(f)) == 1),
    )


def _parse(smiles: str) -> Any | None:
    """Build a molecule without atom maps, or None."""
    from rdkit.Chem import MolFromSmiles, RemoveHs
    from rdkit.rdBase import BlockLogs

    with BlockLogs():
        try:
            molecule = MolFromSmiles(smiles)
        except UnicodeEncodeError:  # half a surrogate pair, which JSON can spell
            return None
        if molecule is None or molecule.GetNumAtoms() == 0:
            return None
        for atom in molecule.GetAtoms():
            atom.SetAtomMapNum(0)
        # A mapped hydrogen is kept while parsing; without its map it is an ordinary one.
        return RemoveHs(molecule)


def _molecule(smiles: str) -> Any:
    molecule = _parse(smiles)
    if molecule is None:
        raise DataError(f"{smiles[:200]!r} is not a valid SMILES; mend or remove the row.")
    return molecule


@lru_cache
def _morgan(radius: int, bits: int) -> Any:
    from rdkit.Chem.rdFingerprintGenerator import GetMorganGenerator

    return GetMorganGenerator(radius=radius, fpSize=bits)


def _write(molecule: Any, *, stereo: bool) -> str:
    from rdkit.Chem import MolToSmiles

    return str(MolToSmiles(molecule, isomericSmiles=stereo))
