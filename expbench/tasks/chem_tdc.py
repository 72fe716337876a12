"""Chem-TDC: yes-or-no properties of drug molecules, eight ADMET sets (Huang et al. 2021).

Source: https://tdcommons.ai, single-prediction sets on Harvard Dataverse; the file ids stand in
PyTDC's metadata. A row (invented; published tables have no `property`, their names say it):

    {"Drug_ID": "Ethanol", "Drug": "CCO", "Y": 1, "property": "HIA_Hou"}

`Drug_ID` may be null or repeat, so ids are made from canonical SMILES and property. The question
shows the SMILES as published; `features` hold the canonical one. A molecule that
a property lists twice is kept once; with both labels it is dropped, because no answer is right.
Both are counted in a note. Train and test come from one scaffold split over all rows, so a
scaffold is never on both sides, not even for different properties.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath

from expbench.core import Rows, Sample, Source, Split, Task
from expbench.data import Row
from expbench.data.draws import digest
from expbench.errors import DataError
from expbench.tasks.grading import grade_chem
from expbench.tasks.prompts import MAX_TOKENS, chem_prompt
from expbench.tasks.repeats import without_repeats

_DATAVERSE = "https://dataverse.harvard.edu/api/access/datafile"
FILE_IDS = {
    "HIA_Hou": 4259591,
    "Pgp_Broccatelli": 4259597,
    "Bioavailability_Ma": 4259567,
    "BBB_Martins": 4259566,
    "hERG": 4259588,
    "DILI": 4259585,
    "AMES": 4259564,
    "ClinTox": 4259572,
}
"""Dataverse file ids, from `name2id` in PyTDC 1.1.15, tdc/metadata.py."""
QUESTIONS = {
    "HIA_Hou": "Is this molecule absorbed well from the human intestine?",
    "Pgp_Broccatelli": "Does this molecule inhibit P-glycoprotein (Pgp)?",
    "Bioavailability_Ma": "Is this molecule bioavailable in humans when taken by mouth?",
    "BBB_Martins": "Does this molecule cross the blood-brain barrier?",
    "hERG": "Does this molecule block the hERG potassium channel of the heart?",
    "DILI": "Can this molecule cause drug-induced liver injury?",
    "AMES": "Is this molecule mutagenic in the Ames test?",
    "ClinTox": "Is this molecule so toxic that it fails in clinical trials?",
}
"""What Y = 1 means, as a question."""


def gold(sample: Sample) -> str:
    """Answer in the form the prompt asks for."""
    return f"Answer: {sample.target[0]}"


def _sample(row: Row) -> Sample:
    from expbench.molecules import canonical

    smiles, label = row.text("Drug"), row.integer("Y")
    name = row.text("property") if row.has("property") else PurePath(row.file).stem
    if name not in QUESTIONS:
        raise row.error(f"the property is {name!r}. Known: {', '.join(QUESTIONS)}.")
    if label not in (0, 1):
        raise row.error(f"field 'Y' is {label}, not 0 or 1.")
    try:
        molecule = canonical(smiles)
    except DataError:
        raise row.error(f"field 'Drug' is {smiles!r}, which is not a valid SMILES.") from None
    return Sample(
        id=f"{name}-{digest(molecule, name)[:12]}",
        task="chem_tdc",
        kind="chem",
        input=f"{QUESTIONS[name]}\nSMILES: {smiles}",
        features={"smiles": molecule, "property": name},
        target=("Yes" if label else "No",),
        tags={"property": name},
    )


def _load(rows: Rows) -> Mapping[Split, Sequence[Sample]]:
    from expbench.molecules import scaffold_split

    def pairs() -> Iterator[tuple[Row, Sample]]:
        for row in rows("*"):
            yield row, _sample(row)

    samples = without_repeats(rows, "chem_tdc", pairs())
    sides = scaffold_split([sample.features["smiles"] for sample in samples])
    splits: dict[Split, list[Sample]] = {"train": [], "test": []}
    for side, sample in zip(sides, samples, strict=True):
        splits[side].append(sample)
    return splits


TASK = Task(
    name="chem_tdc",
    version=1,
    title="Properties of drug molecules, eight ADMET sets",
    scenario="pharma-chemistry",
    group="chem",
    kind="chem",
    metric="accuracy",
    source=Source(
        dataset="TDC ADMET",
        urls={f"{name}.tab": f"{_DATAVERSE}/{number}" for name, number in FILE_IDS.items()},
        licence="of each set, see https://tdcommons.ai (most CC BY 4.0)",
        paper="Huang et al. 2021, arXiv 2102.09548",
        splits=("*",),
    ),
    load=_load,
    prompt=chem_prompt,
    grade=grade_chem,
    gold=gold,
    max_tokens=MAX_TOKENS["chem"],
    macro_over="property",
)
