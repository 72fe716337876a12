"""Retrieval over the pool by text, for methods that put what they find into the prompt.

One retriever searches all entries that it was built of, whatever their task: the pool is one. It is
built once and never changes; a method that trains its policy searches with the untouched backbone,
so that what is found does not drift while it learns. What has nothing in common with a query, no
word and no fragment, is not found by `bm25` and `tanimoto`; `dense` ranks every entry.
Shapes: N entries, D hidden size, W bits of a fingerprint, B queries.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from expbench.core import Experience, Question
from expbench.errors import ConfigError
from expbench.molecules import morgan_bits

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

RetrieverKind = Literal["bm25", "dense", "tanimoto"]
KINDS: tuple[RetrieverKind, ...] = get_args(RetrieverKind)
K1 = 1.5
B = 0.75
"""Saturation and length weight of BM25: bm25s's own defaults."""


@dataclass(frozen=True)
class Query:
    """What is looked for."""

    text: str
    features: Mapping[str, Any] = field(default_factory=dict)
    """Machine-readable inputs; `tanimoto` reads `smiles` here and no text."""


class Retriever(Protocol):
    """Finds entries; `build_retriever` makes one."""

    def search(self, queries: Sequence[Query], k: int) -> list[list[int]]:
        """Return each query's entries as positions, best first, ties by position.

        At most k, and at most as many as there are; none for a blank query.

        Raises:
            ConfigError: k below 0, or a query that this retriever cannot read.
        """
        ...


def query_of(question: Question) -> Query:
    """Look for what a question asks, in the source's own words: its form is not searched for.

    >>> query_of(Question(id="1", task="t", kind="math", input="1+1?", prompt="Solve: 1+1?")).text
    '1+1?'
    """
    return Query(text=question.input, features=question.features)


def document_of(entry: Experience) -> str:
    """Return the text by which an entry is found: its summary, then its question in full.

    The question comes last, because `dense` reads the state after the last word, and a query ends
    as a question does.
    """
    return "\n".join(part for part in (entry.summary, entry.sample.input) if part)


def words(text: str) -> list[str]:
    """Split into lower-case runs of letters, digits and underscores; no stemmer, no stop words.

    >>> words("What's 3 x 4, Étienne?")
    ['what', 's', '3', 'x', '4', 'étienne']
    """
    return re.findall(r"\w+", text.lower())


def build_retriever(
    kind: RetrieverKind,
    entries: Sequence[Experience],
    *,
    encode: Callable[[Sequence[str]], Any] | None = None,
) -> Retriever:
    """Index entries.

    Args:
        kind: `bm25`: words (Robertson and Zaragoza 2009, in Lucene's variant). `dense`: cosine of
            the backbone's hidden states, less their mean over the entries. `tanimoto`: shared
            fragments of molecules.
        entries: Whose positions are found; may be empty.
        encode: `Model.encode` of the untouched backbone, for `dense`.

    Raises:
        ConfigError: an unknown kind, `dense` without `encode`, `tanimoto` with an entry that is no
            molecule.
        DataError: states that are not finite.
    """
    if kind not in KINDS:
        raise ConfigError(f"retriever is {kind!r}; it must be one of {', '.join(KINDS)}.")
    if kind == "bm25":
        return BM25([document_of(entry) for entry in entries])
    if kind == "tanimoto":
        return Tanimoto([smiles_of(entry.sample.features, entry.sample.id) for entry in entries])
    if encode is None:
        raise ConfigError("The dense retriever needs a backbone that encodes; give encode.")
    return Dense([document_of(entry) for entry in entries], encode)


class BM25:
    """Words weighted by rarity and frequency, through bm25s; in float64, one query at a time."""

    def __init__(self, texts: Sequence[str]) -> None:
        import bm25s

        documents = [words(text) for text in texts]
        found = dict.fromkeys(word for document in documents for word in document)
        self._ids = {word: number for number, word in enumerate(found)}
        self._index: Any = None
        if self._ids:
            self._index = bm25s.BM25(
                k1=K1, b=B, method="lucene", dtype="float64", backend="numpy", csc_backend="numpy"
            )
            rows = [[self._ids[word] for word in document] for document in documents]
            self._index.index((rows, self._ids), create_empty_token=False, show_progress=False)

    def search(self, queries: Sequence[Query], k: int) -> list[list[int]]:
        """Find entries that share words; see `Retriever`."""
        check_count(k)
        return [best(self.scores(query.text), k) for query in queries]

    def scores(self, text: str) -> "NDArray[np.float64]":
        """Return the score of every entry, (N,), 0 where no word is shared; (0,) if none is."""
        import numpy as np

        ids = [self._ids[word] for word in words(text) if word in self._ids]
        if not ids:
            return np.zeros(0)
        found: NDArray[np.float64] = self._index.get_scores_from_ids(ids)
        return found


class Dense:
    """Cosine of hidden states. Equal documents are encoded once, so that they stay equal."""

    def __init__(self, texts: Sequence[str], encode: Callable[[Sequence[str]], Any]) -> None:
        import torch

        from expbench.experience.normalise import Statistics
        from expbench.experience.search import Index

        self._encode = encode
        self._index: Index | None = None
        if texts:
            distinct = list(dict.fromkeys(texts))
            row = {text: number for number, text in enumerate(distinct)}
            states_ND = torch.as_tensor(encode(distinct))[[row[text] for text in texts]]
            self._statistics = Statistics.of(states_ND, "centre")
            self._index = Index(self._statistics.apply(states_ND))

    def search(self, queries: Sequence[Query], k: int) -> list[list[int]]:
        """Rank all entries by cosine; see `Retriever`."""
        import torch

        check_count(k)
        found: list[list[int]] = [[] for _ in queries]
        asked = [i for i, query in enumerate(queries) if query.text.strip()]
        if self._index is None or not k or not asked:
            return found
        states_BD = torch.as_tensor(self._encode([queries[i].text for i in asked]))
        _, positions_BK = self._index.search(self._statistics.apply(states_BD), k)
        for i, positions in zip(asked, positions_BK.tolist(), strict=True):
            found[i] = positions
        return found


class Tanimoto:
    """Shared bits of Morgan fingerprints over all bits of both (Rogers and Hahn 2010)."""

    def __init__(self, smiles: Sequence[str]) -> None:
        import numpy as np

        # Sums of at most some thousand ones are exact in float32, in whatever order.
        rows = [morgan_bits(text) for text in smiles]
        self._bits_NW = np.array(rows, dtype=np.float32) if rows else None

    def search(self, queries: Sequence[Query], k: int) -> list[list[int]]:
        """Find molecules that share fragments; see `Retriever`."""
        check_count(k)
        return [best(self.scores(query), k) for query in queries]

    def scores(self, query: Query) -> "NDArray[np.float64]":
        """Return the similarity with every entry, (N,) in [0, 1]; (0,) for a blank query."""
        import numpy as np

        if not query.text.strip() and not query.features:
            return np.zeros(0)
        smiles = smiles_of(query.features, query.text)
        if self._bits_NW is None:
            return np.zeros(0)
        bits_W = morgan_bits(smiles).astype(np.float32)
        both_N = (self._bits_NW @ bits_W).astype(np.float64)
        either_N = self._bits_NW.sum(1, dtype=np.float64) + bits_W.sum(dtype=np.float64) - both_N
        found: NDArray[np.float64] = both_N / either_N
        return found


def best(scores_N: "NDArray[np.float64]", k: int) -> list[int]:
    """Return up to k positions of the largest scores above 0, the lower one first at a tie."""
    import numpy as np

    order = np.argsort(-scores_N, kind="stable")[:k]
    return [int(i) for i in order if scores_N[i] > 0]


def smiles_of(features: Mapping[str, Any], name: str) -> str:
    """Return the molecule of a question.

    Raises:
        ConfigError: it has none.
    """
    if "smiles" not in features:
        raise ConfigError(
            f"The tanimoto retriever compares molecules and {name[:80]!r} has none; "
            "set retriever to bm25 or dense for this task."
        )
    return str(features["smiles"])


def check_count(k: int) -> None:
    """Refuse a negative count.

    Raises:
        ConfigError: k below 0.
    """
    if k < 0:
        raise ConfigError(f"k is {k}; it must be 0 or more.")
