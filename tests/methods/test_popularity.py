from typing import Any

import pytest

from expbench.core import NoConfig, Sample
from expbench.errors import DataError
from expbench_methods.popularity.method import Popularity


def user(history: str, candidates: str, target: int = 0, task: str = "films") -> Sample:
    features: dict[str, Any] = {"history_ids": tuple(history), "candidate_ids": tuple(candidates)}
    return Sample(
        id=history,
        task=task,
        kind="ranking",
        input="",
        candidates=tuple(candidates),
        features=features,
        target=(str(target),),
    )


def fitted(*train: Sample) -> Popularity:
    method = Popularity(NoConfig(), None, 0)
    method.fit(train, (), lambda sample, output: 0.0)
    return method


def test_items_that_more_train_users_met_come_first() -> None:
    method = fitted(user("ab", "cd"), user("ac", "de"), user("ae", "bc", 1))
    assert method.answer([user("x", "bcad").question()])[0].ranking == (1, 2, 0, 3)


def test_the_chosen_candidate_counts_and_the_shown_ones_do_not() -> None:
    method = fitted(user("a", "bcd", 2))
    assert method.users == {("films", "a"): 1, ("films", "d"): 1}


def test_an_item_that_is_met_twice_by_a_user_counts_once() -> None:
    assert fitted(user("aa", "ab")).users == {("films", "a"): 1}


def test_items_of_another_task_are_other_items_and_ties_keep_their_order() -> None:
    method = fitted(user("ab", "cd", task="games"))
    assert method.answer([user("x", "dcba")])[0].ranking == (0, 1, 2, 3)


def test_fitting_again_forgets_what_was_counted() -> None:
    method = fitted(user("a", "b"))
    method.fit([], (), lambda sample, output: 0.0)
    assert not method.users


def test_a_question_without_item_ids_is_an_error_that_names_the_feature() -> None:
    bare = Sample(id="1", task="t", kind="ranking", input="", candidates=("A",), target=("0",))
    with pytest.raises(DataError, match="candidate_ids"):
        fitted().answer([bare.question()])
