"""Files of the mini suite for `movielens` and `amazon_games`, in RecBole's atomic format.

The users are simulated. Each has one or two favourite genres, and the two stand side by side in
the catalogue. Users like to go on with a series that they have begun and never meet a sequel
before its predecessor; now and then they follow the crowd. So the next item can be guessed
from the titles of the history better than from popularity, but not always.

Raw rows of `movielens.inter` and `movielens.item` (a tab between columns):
    user_id:token  item_id:token             rating:float        timestamp:float
    1              10                        3                   985164327
    item_id:token  movie_title:token_seq     release_year:token  genre:token_seq
    10             Serenade in Seven Flats   1974                Musical
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random

from expbench.mini.titles import FILMS, GAMES, REPEATED_GAMES, Shelf

USERS = 64
PARTS = 3
"""Length of a series."""
FAVOURITE = 0.7
"""Chance that a user looks for the next item on a favourite shelf."""
GO_ON = 0.7
"""Chance that it is then the next part of a series, if one has been begun."""
HEAD = 10
"""Flattens the law of popularity, weight 1 / (rank + HEAD); the first item weighs 25 times as much
as the last one."""
DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class Item:
    """A film or a game."""

    id: str
    title: str
    genre: str
    predecessor: str | None
    """Title of the part before, if there is one."""


@dataclass(frozen=True, kw_only=True)
class Visit:
    """One user meets one item."""

    user: int
    item: Item
    is_favourite: bool
    """Whether the genre is one of the user's favourites."""


def movielens() -> dict[str, str]:
    """Make `movielens.inter` and `movielens.item`."""
    random = Random("movielens")
    items = _catalogue(FILMS, random, part_title="{}, Part {}".format)
    years = _release_years(items, random)
    lines: list[tuple[object, ...]] = []
    user, now = 0, 0
    for visit in _visits(FILMS, items, random):
        if visit.user != user:
            user, now = visit.user, 978_300_000 + random.randrange(20_000_000)
        now += random.randrange(20, 4000)
        rating = random.choice((3, 4, 4, 5, 5) if visit.is_favourite else (2, 3, 3, 4))
        lines.append((user, visit.item.id, rating, now))
    films = [(item.id, item.title, years[item.title], item.genre) for item in items]
    return {
        "movielens.inter": _table(
            "user_id:token item_id:token rating:float timestamp:float", lines
        ),
        "movielens.item": _table(
            "item_id:token movie_title:token_seq release_year:token genre:token_seq", films
        ),
    }


def amazon_games() -> dict[str, str]:
    """Make `amazon_games.inter` and `amazon_games.item`; times are whole days."""
    random = Random("amazon_games")
    items = _catalogue(GAMES, random, part_title=_game_title, repeated=REPEATED_GAMES)
    lines: list[tuple[object, ...]] = []
    user, day = 0, 0
    for visit in _visits(GAMES, items, random):
        if visit.user != user:
            user, day = visit.user, 15_400 + random.randrange(700)
        day += random.randrange(1, 40)
        lines.append((f"u{user:02}", f"g{visit.item.id:0>3}", DAY * day))
    games = [(f"g{item.id:0>3}", item.title) for item in items]
    return {
        "amazon_games.inter": _table("user_id:token item_id:token timestamp:float", lines),
        "amazon_games.item": _table("item_id:token title:token_seq", games),
    }


def _game_title(series: str, part: int) -> str:
    return series if part == 1 else f"{series} {part}"


def _catalogue(
    shelves: Sequence[Shelf],
    random: Random,
    *,
    part_title: Callable[[str, int], str],
    repeated: Sequence[str] = (),
) -> list[Item]:
    """Number all items in a random order, so that an id says nothing about the genre."""
    rows: list[tuple[str, str, str | None]] = []
    for shelf in shelves:
        for title in shelf.singles:
            rows.extend([(title, shelf.genre, None)] * (1 + (title in repeated)))
        for series in shelf.series:
            titles = [part_title(series, part) for part in range(1, PARTS + 1)]
            before = (None, *titles[:-1])
            rows.extend(
                (title, shelf.genre, last) for title, last in zip(titles, before, strict=True)
            )
    random.shuffle(rows)
    return [
        Item(id=str(number), title=title, genre=genre, predecessor=predecessor)
        for number, (title, genre, predecessor) in enumerate(rows, start=1)
    ]


def _release_years(items: Sequence[Item], random: Random) -> dict[str, int]:
    """Draw a year for each title; sequels follow two to four years after the part before."""
    years: dict[str, int] = {}
    # Titles of a series sort by part, so the predecessor has its year already.
    for item in sorted(items, key=lambda item: item.title):
        if item.predecessor is None:
            years[item.title] = random.randrange(1948, 1992)
        else:
            years[item.title] = years[item.predecessor] + random.randrange(2, 5)
    return years


def _visits(shelves: Sequence[Shelf], items: Sequence[Item], random: Random) -> Iterator[Visit]:
    """Simulate all users, one after the other."""
    ranking = list(items)
    random.shuffle(ranking)
    # Whole numbers, so that no machine's rounding can change a choice.
    popularity = {item.id: 1000 // (rank + HEAD) for rank, item in enumerate(ranking)}
    genres = [shelf.genre for shelf in shelves]
    for user in range(1, USERS + 1):
        first = random.randrange(len(genres))
        second = (first + random.choice((-1, 0, 1))) % len(genres)
        favourites = (genres[first], genres[first], genres[second])
        met: list[Item] = []
        for _ in range(random.randrange(21, 25)):
            item = _next_item(
                items, met, favourites=favourites, popularity=popularity, random=random
            )
            met.append(item)
            yield Visit(user=user, item=item, is_favourite=item.genre in favourites)


def _next_item(
    items: Sequence[Item],
    met: Sequence[Item],
    *,
    favourites: Sequence[str],
    popularity: dict[str, int],
    random: Random,
) -> Item:
    """Choose what a user meets next; nobody meets a title twice."""
    seen = {item.title for item in met}
    pool = [
        item
        for item in items
        if item.title not in seen and (item.predecessor is None or item.predecessor in seen)
    ]
    if random.random() < FAVOURITE:
        genre = random.choice(favourites)
        pool = [item for item in pool if item.genre == genre]
        sequels = [item for item in pool if item.predecessor]
        if sequels and random.random() < GO_ON:
            pool = sequels
    return random.choices(pool, weights=[popularity[item.id] for item in pool])[0]


def _table(header: str, rows: Iterable[Sequence[object]]) -> str:
    """Write columns with a tab between them and a line end after every row."""
    lines = ["\t".join(header.split()), *("\t".join(map(str, row)) for row in rows)]
    return "".join(f"{line}\n" for line in lines)
