"""Next-item ranking: from interactions in time order to histories with twenty candidates.

Rules, the same for every data set:

1. Items with the same title are one item, because a reader of titles cannot tell them apart.
2. A second interaction of a user with an item is dropped; order is time, then place in the file.
3. Users with at least 21 interactions: the first 20 are the history, the 21st is the target.
4. 19 negatives, uniform over the items that the user never meets, later ones included.
5. The 20 candidates are shuffled; negatives and order depend on the user alone.
6. Half of the users, seeded, are train, the others test.
7. HTML entities are unescaped once. Titles longer than 120 characters are cut in the prompt, except
   where two would become equal.
"""

import html
from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice

from expbench.core import Rows, Sample, Split
from expbench.data import Row, note
from expbench.data.draws import draw_indices, first_half, shuffled
from expbench.errors import DataError, MissingData

HISTORY = 20
CANDIDATES = 20
TITLE_LENGTH = 120


@dataclass(frozen=True, kw_only=True)
class Catalogue:
    """Where a data set keeps what a ranking task needs; alternatives in order of preference."""

    task: str
    user: tuple[str, ...]
    item: tuple[str, ...]
    time: tuple[str, ...]
    title: tuple[str, ...]
    question: str
    """First line of the question, before the history."""


def draw_candidates(
    seen: Set[str], target: str, items: Sequence[str], *, count: int, rng_key: str
) -> list[str]:
    """Draw the candidates of one user, shuffled: the target once, the rest never seen, distinct.

    Args:
        seen: Items the user has met, at any time; may hold the target.
        target: The item to find.
        items: All items, distinct.
        count: Number of candidates, the target included.
        rng_key: Seed; the same key and items give the same candidates.

    Raises:
        DataError: the target is not an item, or too few items are unseen.

    >>> draw_candidates({"a"}, "b", ["a", "b", "c"], count=2, rng_key="u1") in (
    ...     ["b", "c"], ["c", "b"])
    True
    """
    excluded = {*seen, target}
    unseen = (items[i] for i in draw_indices(len(items), rng_key) if items[i] not in excluded)
    negatives = list(islice(unseen, count - 1))
    if len(negatives) < count - 1 or len(set(negatives)) < len(negatives):
        raise DataError(
            f"Only {len(set(negatives))} items are unseen by {rng_key}, but {count - 1} are needed"
            " beside the target. Use a larger item file, without repeated ids."
        )
    return shuffled([target, *negatives], f"{rng_key}:order")


def short_titles(titles: Mapping[str, str]) -> dict[str, str]:
    """Cut titles to 120 characters; those that would become equal stay whole.

    >>> short_titles({"1": "Moon", "2": "x" * 200})["2"][-3:]
    'xx…'
    """
    cut = {
        item: title if len(title) <= TITLE_LENGTH else title[: TITLE_LENGTH - 1].rstrip() + "…"
        for item, title in titles.items()
    }
    times = Counter(cut.values())
    return {item: title if times[title] == 1 else titles[item] for item, title in cut.items()}


def load_ranking(rows: Rows, catalogue: Catalogue) -> Mapping[Split, Sequence[Sample]]:
    """Turn interactions and items into ranking samples.

    Raises:
        DataError: an interaction with an unknown item in RecBole's files.
        MissingData: no user with enough interactions.
    """
    titles, same = _items(rows("*.item"), catalogue)
    histories = _histories(rows, catalogue, same)
    users = {user: items for user, items in histories.items() if len(items) > HISTORY}
    if not users:
        longest = max(map(len, histories.values()), default=0)
        raise MissingData(
            f"No user of {catalogue.task} has {HISTORY + 1} interactions (the longest history has"
            f" {longest}), so there is nothing to rank: use a larger data set."
        )
    shown, items = short_titles(titles), sorted(titles)
    chosen = first_half(list(users), catalogue.task)
    splits: dict[Split, list[Sample]] = {"train": [], "test": []}
    for user, met in users.items():
        sample = _sample(catalogue, user, met, items=items, shown=shown)
        splits["train" if user in chosen else "test"].append(sample)
    return splits


def _sample(
    catalogue: Catalogue,
    user: str,
    met: Sequence[str],
    *,
    items: Sequence[str],
    shown: Mapping[str, str],
) -> Sample:
    history, target = met[:HISTORY], met[HISTORY]
    candidates = draw_candidates(
        set(met), target, items, count=CANDIDATES, rng_key=f"{catalogue.task}:{user}"
    )
    titles = [shown[item] for item in history]
    return Sample(
        id=user,
        task=catalogue.task,
        kind="ranking",
        input="\n".join([catalogue.question, *(f"- {title}" for title in titles)]),
        candidates=tuple(shown[item] for item in candidates),
        features={
            "user": user,
            "history": tuple(titles),
            "history_ids": tuple(history),
            "candidate_ids": tuple(candidates),
        },
        target=(str(candidates.index(target)),),
        tags={"user": user},
    )


def _items(rows: Sequence[Row], catalogue: Catalogue) -> tuple[dict[str, str], dict[str, str]]:
    """Titles by item, and for every item id the first id with its title."""
    titles: dict[str, str] = {}
    first_with: dict[str, str] = {}
    same: dict[str, str] = {}
    field = rows[0].any_of(*catalogue.title)  # a file without titles is an error, a row is not
    for row in rows:
        item = row.text(row.any_of(*catalogue.item))
        title = _title(row, field)
        if not title or item in same:
            continue
        same[item] = first_with.setdefault(title, item)
        titles.setdefault(same[item], title)
    return titles, same


def _title(row: Row, field: str) -> str:
    title = " ".join(html.unescape(row.text(field)).split()) if row.has(field) else ""
    year = row.text("release_year").strip() if row.has("release_year") else ""
    return f"{title} ({year})" if title and year and not title.endswith(f"({year})") else title


def _histories(rows: Rows, catalogue: Catalogue, same: Mapping[str, str]) -> dict[str, list[str]]:
    """Items of every user in time order, each once."""
    events: dict[str, list[tuple[float, str]]] = {}
    untitled = 0
    interactions = rows("*.inter")
    first = interactions[0]  # a million rows: the names of the columns are looked up once
    item_field, user_field, time_field = (
        first.any_of(*fields) for fields in (catalogue.item, catalogue.user, catalogue.time)
    )
    for row in interactions:
        item = same.get(row.text(item_field))
        if item is None:
            untitled += 1
            continue
        event = (row.number(time_field), item)
        events.setdefault(row.text(user_field), []).append(event)
    if untitled:
        note(rows, f"{untitled} interactions with items that have no title were dropped.")
    return {
        user: list(dict.fromkeys(item for _, item in sorted(met, key=lambda event: event[0])))
        for user, met in events.items()
    }


def gold(sample: Sample) -> str:
    """Answer with the number of the true candidate, counted from 1 as in the prompt."""
    return str(int(sample.target[0]) + 1)
