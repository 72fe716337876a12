"""Next-item ranking: candidates, titles, users."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench import suites
from expbench.errors import DataError, MissingData
from expbench.suites import TaskData
from expbench.tasks.amazon_games import TASK as AMAZON
from expbench.tasks.movielens import TASK as MOVIELENS
from expbench.tasks.next_item import TITLE_LENGTH, draw_candidates, short_titles

ITEMS = [f"i{number}" for number in range(60)]


@given(st.sets(st.sampled_from(ITEMS), max_size=30), st.sampled_from(ITEMS), st.text(max_size=3))
def test_candidates_are_distinct_unseen_and_hold_the_target_once(
    seen: set[str], target: str, key: str
) -> None:
    drawn = draw_candidates(seen, target, ITEMS, count=20, rng_key=key)
    assert len(drawn) == len(set(drawn)) == 20
    assert drawn.count(target) == 1
    assert not set(drawn) & (seen - {target})
    assert draw_candidates(seen, target, ITEMS, count=20, rng_key=key) == drawn


def test_target_positions_and_negatives_are_uniform() -> None:
    draws = [draw_candidates({"i0"}, "i1", ITEMS, count=20, rng_key=str(n)) for n in range(3000)]
    places = Counter(drawn.index("i1") for drawn in draws)
    assert all(90 < places[place] < 215 for place in range(20))
    chosen = Counter(item for drawn in draws for item in drawn)
    assert all(850 < chosen[item] < 1120 for item in ITEMS[2:])
    assert chosen["i0"] == 0


def test_too_few_unseen_items_are_an_error() -> None:
    with pytest.raises(DataError, match="Only 3 items are unseen by u1, but 4 are needed"):
        draw_candidates({"i0"}, "i1", ITEMS[:5], count=5, rng_key="u1")


def test_repeated_items_are_an_error() -> None:
    with pytest.raises(DataError, match="without repeated ids"):
        draw_candidates(set(), "x", ["x", "a", "a"], count=3, rng_key="u1")


@given(st.dictionaries(st.text(max_size=2), st.text(max_size=300), max_size=8))
def test_short_titles_stay_as_distinct_as_they_were(titles: dict[str, str]) -> None:
    short = short_titles(titles)
    assert len(set(short.values())) == len(set(titles.values()))
    assert all(short[item] == title for item, title in titles.items() if len(title) <= 100)


def test_titles_that_would_become_equal_stay_whole() -> None:
    stem = "x" * 150
    short = short_titles({"1": stem + "a", "2": stem + "b", "3": "y" * 150})
    assert (short["1"], short["2"]) == (stem + "a", stem + "b")
    assert len(short["3"]) == TITLE_LENGTH


def write(folder: Path, name: str, inter: list[str], item: list[str]) -> Path:
    place = folder / name
    place.mkdir(exist_ok=True)
    (place / "any.inter").write_text("\n".join(inter) + "\n", encoding="utf-8")
    (place / "any.item").write_text("\n".join(item) + "\n", encoding="utf-8")
    return folder


def games(
    folder: Path,
    users: dict[str, list[tuple[int, str]]],
    titles: dict[str, str] | None = None,
) -> TaskData:
    """Load users given as (time, item) lists over items 0..79."""
    titles = {str(n): f"Game {n}" for n in range(80)} | (titles or {})
    inter = ["user_id:token\titem_id:token\ttimestamp:float"]
    inter += [f"{u}\t{item}\t{time}" for u, met in users.items() for time, item in met]
    item = ["item_id:token\ttitle:token_seq", *(f"{i}\t{title}" for i, title in titles.items())]
    return suites.load(AMAZON, data_dir=write(folder, "amazon_games", inter, item))


def history(count: int, start: int = 0) -> list[tuple[int, str]]:
    return [(time, str(start + time)) for time in range(count)]


def test_the_first_twenty_are_history_and_the_next_is_the_target(tmp_path: Path) -> None:
    users = {"u": history(25)[::-1], "v": history(21, start=30)}
    data = games(tmp_path, users)
    by_user = {s.id: s for s in data.train + data.test}
    sample = by_user["u"]
    assert sample.features["history_ids"] == tuple(str(n) for n in range(20))
    assert sample.features["candidate_ids"][int(sample.target[0])] == "20"
    assert sample.candidates[int(sample.target[0])] == "Game 20"
    later = {"21", "22", "23", "24"}
    assert not later & set(sample.features["candidate_ids"])
    assert sample.input.splitlines()[1] == "- Game 0"


def test_users_with_twenty_interactions_are_left_out(tmp_path: Path) -> None:
    data = games(tmp_path, {"u": history(20), "v": history(21), "w": history(30, start=40)})
    assert {s.id for s in data.train + data.test} == {"v", "w"}


def test_a_user_alone_has_the_same_candidates(tmp_path: Path) -> None:
    many = games(tmp_path, {f"u{n}": history(21, start=n) for n in range(12)})
    few = games(tmp_path, {f"u{n}": history(21, start=n) for n in (3, 4)})
    known = {s.id: s.candidates for s in many.train + many.test}
    assert all(known[s.id] == s.candidates for s in few.train + few.test)


def test_a_second_interaction_with_an_item_is_dropped(tmp_path: Path) -> None:
    met = history(20)
    users = {"u": [*met, (20, "5"), (21, "50")], "v": history(21, start=30)}
    data = games(tmp_path, users)
    sample = next(s for s in data.train + data.test if s.id == "u")
    assert sample.features["candidate_ids"][int(sample.target[0])] == "50"


def test_items_with_one_title_are_one_item(tmp_path: Path) -> None:
    same = {"70": "Twin &amp; Co", "71": "Twin & Co"}
    users = {"u": [*history(19), (19, "71"), (20, "70"), (21, "50")], "v": history(21, start=30)}
    data = games(tmp_path, users, same)
    sample = next(s for s in data.train + data.test if s.id == "u")
    assert sample.features["history"][-1] == "Twin & Co"
    assert sample.features["history_ids"][-1] == "70"
    assert sample.features["candidate_ids"][int(sample.target[0])] == "50"


def test_entities_are_unescaped_once(tmp_path: Path) -> None:
    titles = {str(n): f"Game &amp;lt; {n}" for n in range(80)}
    data = games(tmp_path, {"u": history(21), "v": history(21, start=30)}, titles)
    assert {s.features["history"][3] for s in data.train + data.test} == {
        "Game &lt; 3",
        "Game &lt; 33",
    }


def test_interactions_with_unknown_items_are_dropped_and_counted(tmp_path: Path) -> None:
    data = games(tmp_path, {"u": [*history(21), (30, "none")], "v": history(21, start=30)})
    assert "1 interactions with items that have no title were dropped." in data.notes


def test_items_without_a_title_are_no_items(tmp_path: Path) -> None:
    titles = {str(n): "" for n in range(60, 80)}
    data = games(tmp_path, {"u": history(30, start=37), "v": history(21)}, titles)
    assert "7 interactions with items that have no title were dropped." in data.notes
    assert all("" not in s.candidates for s in data.train + data.test)


def test_a_set_without_long_histories_says_so_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(MissingData) as caught:
        games(tmp_path, {"u": history(20)})
    message = str(caught.value)
    assert "No user of amazon_games has 21 interactions" in message
    assert message.count(". ") == 0


def test_movielens_titles_carry_their_year_once(tmp_path: Path) -> None:
    inter = ["user_id:token\titem_id:token\trating:float\ttimestamp:float"]
    inter += [f"{u}\t{n + s}\t4\t{n}" for u, s in (("u", 0), ("v", 30)) for n in range(21)]
    item = ["item_id:token\tmovie_title:token_seq\trelease_year:token\tgenre:token_seq"]
    item += [f"{n}\tFilm\t{1900 + n}\tDrama" for n in range(60)]
    item += ["60\tOther (1999)\t1999\tDrama"]
    data = suites.load(MOVIELENS, data_dir=write(tmp_path, "movielens", inter, item))
    shown = {title for s in data.train + data.test for title in s.features["history"]}
    assert {"Film (1900)", "Film (1901)", "Film (1935)"} <= shown
    offered = {title for s in data.train + data.test for title in s.candidates}
    assert not any("(1999) (1999)" in title for title in offered)


@pytest.mark.parametrize(
    ("line", "said"),
    [("u\t1\tsoon", "'timestamp' is 'soon', not a number"), ("u\t1", "2 values for 3 columns")],
)
def test_a_bad_interaction_is_named(tmp_path: Path, line: str, said: str) -> None:
    inter = ["user_id:token\titem_id:token\ttimestamp:float", line]
    item = ["item_id:token\ttitle:token_seq", "1\tGame"]
    with pytest.raises(DataError) as caught:
        suites.load(AMAZON, data_dir=write(tmp_path, "amazon_games", inter, item))
    assert "any.inter, line 2" in str(caught.value)
    assert said in str(caught.value)
