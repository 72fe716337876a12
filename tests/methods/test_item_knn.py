import math
import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from expbench.core import Sample
from expbench.errors import ConfigError, DataError
from expbench_methods.item_knn.method import ItemKNN, ItemKNNConfig


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


def fitted(*train: Sample, shrinkage: float = 0.0) -> ItemKNN:
    method = ItemKNN(ItemKNNConfig(shrinkage=shrinkage), None, 0)
    method.fit(train, (), lambda sample, output: 0.0)
    return method


def test_similarities_equal_those_of_the_user_item_matrix() -> None:
    rng = random.Random(3)
    items = "abcdefgh"
    users = []
    for _ in range(20):
        chosen = rng.sample(items, 4)
        users.append(user("".join(chosen[:3]), chosen[3] + "xy"))
    method = fitted(*users, shrinkage=2.0)
    matrix = np.array(
        [[i in {*u.features["history_ids"], u.candidates[0]} for i in items] for u in users], float
    )
    together = matrix.T @ matrix
    counts = matrix.sum(0)
    for (i, one), (j, other) in product(enumerate(items), repeat=2):
        wanted = together[i, j] / (math.sqrt(counts[i] * counts[j]) + 2.0)
        assert method.similarity(("films", one), ("films", other)) == pytest.approx(wanted)


def test_the_candidate_that_goes_with_the_history_beats_the_popular_one() -> None:
    method = fitted(
        user("ab", "cx"), user("ab", "cy"), user("pq", "rx"), user("pr", "qx"), user("pz", "rx")
    )
    assert method.answer([user("ab", "pcz").question()])[0].ranking == (1, 0, 2)


def test_shrinkage_discounts_pairs_of_rare_items() -> None:
    users = [user("ab", "z")] + [user("cd", "z") for _ in range(5)] + [user("c", "z")] * 2
    a, b, c, d = (("films", item) for item in "abcd")
    plain, shrunk = fitted(*users), fitted(*users, shrinkage=5.0)
    assert plain.similarity(a, b) > plain.similarity(c, d)
    assert shrunk.similarity(a, b) < shrunk.similarity(c, d)


def test_unknown_items_score_zero_and_ties_go_to_the_popular_then_to_the_earlier_one() -> None:
    method = fitted(user("ab", "cx"), user("bd", "ey"))
    assert method.answer([user("u", "vabw").question()])[0].ranking == (2, 1, 0, 3)


def test_tasks_do_not_mix_and_fitting_again_forgets() -> None:
    method = fitted(user("ab", "cx", task="games"))
    assert method.similarity(("films", "a"), ("films", "b")) == 0
    assert method.similarity(("games", "a"), ("games", "b")) == 1
    method.fit([], (), lambda sample, output: 0.0)
    assert not method.users
    assert not method.together


def test_missing_ids_and_a_negative_shrinkage_are_errors() -> None:
    bare = Sample(id="1", task="t", kind="ranking", input="", candidates=("A",), target=("0",))
    with pytest.raises(DataError, match="history_ids"):
        fitted().answer([bare.question()])
    with pytest.raises(ConfigError, match="shrinkage"):
        ItemKNNConfig(shrinkage=-1.0)
