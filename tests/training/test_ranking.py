import json
import math
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from expbench.core import Output, Sample
from expbench.errors import ConfigError, DataError, GradingError
from expbench.graders.ranking import grade_ranking
from expbench.training.loop import Hooks, ParameterGroup, TrainingResult, Window
from expbench.training.orders import advantages, batch_deviation, log_prob, objective, sample_orders
from expbench.training.ranking import train_ranking
from expbench.training.settings import GRPOSettings


def probability(scores: Sequence[float], order: Sequence[int], top: int) -> float:
    """Plackett-Luce as it is written in a textbook."""
    weights, found = [math.exp(score) for score in scores], 1.0
    for place in range(min(top, len(order))):
        found *= weights[order[place]] / sum(weights[item] for item in order[place:])
    return found


@pytest.mark.parametrize("top", [1, 2, 3, 5, 10])
def test_log_probabilities_equal_the_textbook_and_those_of_all_orders_sum_to_one(top: int) -> None:
    scores = torch.tensor([[0.3, -1.2, 2.0, 0.0, 0.7]], dtype=torch.float64)
    orders = list(permutations(range(5)))
    found = log_prob(scores, torch.tensor([orders]), top)[0].exp()
    wanted = [probability(scores[0].tolist(), order, top) for order in orders]
    assert found.tolist() == pytest.approx(wanted, rel=1e-12)
    # Each beginning is shared by all orders of the places that do not count.
    repeats = math.factorial(max(0, 5 - top))
    assert float(found.sum()) / repeats == pytest.approx(1.0, rel=1e-12)


def test_absent_candidates_change_neither_probability_nor_gradient() -> None:
    short = torch.tensor([[0.5, -0.5, 1.5]], dtype=torch.float64, requires_grad=True)
    padded = torch.tensor([[0.5, -0.5, 1.5, -math.inf, -math.inf]], dtype=torch.float64)
    padded.requires_grad_()
    alone = log_prob(short, torch.tensor([[[2, 0, 1]]]))
    among = log_prob(padded, torch.tensor([[[2, 0, 1, 3, 4]]]))
    assert float(among.detach()) == pytest.approx(float(alone.detach()), rel=1e-12)
    alone.sum().backward()  # type: ignore[no-untyped-call]
    among.sum().backward()  # type: ignore[no-untyped-call]
    assert short.grad is not None
    assert padded.grad is not None
    assert padded.grad[0].tolist() == pytest.approx([*short.grad[0].tolist(), 0.0, 0.0])


def test_gradients_equal_finite_differences() -> None:
    scores = torch.randn(2, 6, dtype=torch.float64, requires_grad=True)
    orders = sample_orders(scores, 3, torch.Generator().manual_seed(1))
    assert torch.autograd.gradcheck(lambda s: log_prob(s, orders, 4), (scores,))


def test_sampled_orders_come_as_often_as_their_probability_says() -> None:
    scores = torch.tensor([[0.0, 1.0, -0.5]])
    count = 20_000
    orders = sample_orders(scores, count, torch.Generator().manual_seed(0))[0].tolist()
    for order in permutations(range(3)):
        wanted = probability(scores[0].tolist(), order, 3)
        error = math.sqrt(wanted * (1 - wanted) / count)
        assert abs(orders.count(list(order)) / count - wanted) < 4.5 * error


def test_sampled_orders_are_permutations_with_absent_candidates_last() -> None:
    scores = torch.tensor([[0.0, -math.inf, 3.0, -math.inf], [1e4, -1e4, 0.0, 1.0]])
    orders = sample_orders(scores, 50, torch.Generator().manual_seed(2))
    assert torch.equal(orders.sort(-1).values, torch.arange(4).expand(2, 50, 4))
    assert set(orders[0, :, 2:].flatten().tolist()) == {1, 3}


def test_advantages_of_a_question_have_mean_zero_and_deviation_one_and_skip_missing_grades() -> (
    None
):
    rewards = torch.tensor([[0.1, 0.9, math.nan, 0.4], [0.5, 0.5, 0.5, 0.5], [math.nan] * 4])
    found = advantages(rewards, "group")
    graded = found[0][[0, 1, 3]]
    assert float(graded.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(graded.std()) == pytest.approx(1.0, abs=1e-3)
    assert found[0, 2] == 0
    assert not found[1:].any()
    flat = rewards[:2].flatten()
    assert batch_deviation(rewards) == pytest.approx(float(flat[~flat.isnan()].std()) + 1e-4)


def test_clipping_takes_the_gradient_of_orders_that_have_moved_far_enough() -> None:
    old = torch.zeros(1, 4)
    new = torch.tensor([[0.5, 0.5, -0.5, -0.5]], requires_grad=True)
    objective(new, old, torch.tensor([[1.0, -1.0, 1.0, -1.0]])).sum().backward()  # type: ignore[no-untyped-call]
    assert new.grad is not None
    assert (new.grad[0] != 0).tolist() == [False, True, True, False]


CANDIDATES = 12


def samples(count: int = 6) -> list[Sample]:
    return [
        Sample(
            id=str(index),
            task="toy",
            kind="ranking",
            input="",
            candidates=tuple(f"{index}-{place}" for place in range(CANDIDATES - index % 3)),
            features={"row": index},
            target=(str((index * 5) % 7),),
        )
        for index in range(count)
    ]


class Table(nn.Module):
    """A score for every candidate of every question."""

    def __init__(self) -> None:
        super().__init__()
        self.scores_NC = nn.Parameter(torch.zeros(6, CANDIDATES))
        self.calls: list[int] = []

    def forward(self, asked: Sequence[Sample]) -> Tensor:
        self.calls.append(len(asked))
        most = max(len(sample.candidates) for sample in asked)
        rows = []
        for sample in asked:
            count = len(sample.candidates)
            row = self.scores_NC[sample.features["row"], :count]
            rows.append(nn.functional.pad(row, (0, most - count), value=-math.inf))
        return torch.stack(rows)


def ndcg(sample: Sample, output: Output) -> float:
    return grade_ranking(sample, output).value


def train(
    folder: Path, table: Table, *, hooks: Hooks | None = None, **changed: Any
) -> TrainingResult:
    options: dict[str, Any] = {"steps": 6, "prompts": 4, "group": 16, "micro_batch": 32}
    reward = changed.pop("reward", ndcg)
    advance = changed.pop("advance", lambda count: None)
    group = ParameterGroup(name="table", parameters=[table.scores_NC], learning_rate=0.1)
    return train_ranking(
        samples=samples(),
        score=table,
        reward=reward,
        settings=GRPOSettings(**{**options, **changed}),
        seed=5,
        folder=folder,
        groups=[group],
        hooks=hooks or Hooks(),
        advance=advance,
        prompt_tokens=lambda asked: 10 * len(asked),
    )


def rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "train.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("scale", ["group", "batch", "none"])
@pytest.mark.parametrize("window", [1, 3])
def test_training_raises_the_reward(tmp_path: Path, scale: str, window: int) -> None:
    table = Table()
    result = train(tmp_path, table, steps=60, scale_rewards=scale, window=window, prompts=6)
    log = rows(tmp_path)
    assert [row["step"] for row in log] == list(range(1, 61))
    assert log[-1]["sorted_reward"] > 0.9
    assert log[-1]["reward"] > log[0]["reward"] + 0.15
    assert result.steps == 60
    assert result.prompt_tokens == 60 * 6 * 10
    for sample in samples():
        scores = table([sample])[0]
        assert int(scores.argmax()) == int(sample.target[0])


def test_the_result_does_not_depend_on_the_micro_batch(tmp_path: Path) -> None:
    tables = []
    for micro_batch in (1, 32, 64):
        table = Table()
        train(tmp_path / str(micro_batch), table, micro_batch=micro_batch)
        tables.append(table)
    assert set(tables[0].calls) == {1}
    assert set(tables[1].calls) == {2}
    assert set(tables[2].calls) == {4}
    for other in tables[1:]:
        torch.testing.assert_close(tables[0].scores_NC, other.scores_NC)


def test_a_killed_training_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = Table()
    train(tmp_path / "whole", whole, save_every=2)

    def kill(window: Window) -> Mapping[str, float]:
        if window.step == 5:
            raise KeyboardInterrupt
        return {}

    broken, seen = Table(), list[int]()
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "broken", broken, save_every=2, hooks=Hooks(after_window=kill))
    again = Table()
    loaded: list[Path] = []
    result = train(
        tmp_path / "broken", again, save_every=2, hooks=Hooks(load=loaded.append),
        advance=seen.append,
    )  # fmt: skip
    assert seen == [4, 1, 1]
    assert len(loaded) == 1
    assert result.prompt_tokens == 6 * 4 * 10
    torch.testing.assert_close(again.scores_NC, whole.scores_NC, rtol=0, atol=0)
    kept = ("step", "reward", "loss", "grad_norm")
    first, second = (
        [{key: row[key] for key in kept} for row in rows(tmp_path / name)]
        for name in ("whole", "broken")
    )
    assert first == second


def test_a_finished_training_does_nothing_more(tmp_path: Path) -> None:
    table = Table()
    first = train(tmp_path, table)
    table.calls.clear()
    assert train(tmp_path, table).steps == first.steps
    assert table.calls == []
    assert len(rows(tmp_path)) == 6


def test_a_window_shows_the_hook_every_order_as_titles_and_logs_its_numbers(tmp_path: Path) -> None:
    windows: list[Window] = []

    def look(window: Window) -> Mapping[str, float]:
        windows.append(window)
        return {"bank": 7.0}

    train(tmp_path, Table(), window=4, hooks=Hooks(after_window=look))
    assert [window.step for window in windows] == [4, 6]
    assert [row.get("bank") for row in rows(tmp_path)] == [None, None, None, 7.0, None, 7.0]
    for attempt in windows[0].attempts:
        titles = attempt.text.split("\n")
        order = tuple(attempt.sample.candidates.index(title) for title in titles)
        assert sorted(titles) == sorted(attempt.sample.candidates)
        assert attempt.reward == pytest.approx(ndcg(attempt.sample, Output(ranking=order)))
    assert len(windows[0].attempts) == 4 * 16


def test_orders_that_cannot_be_graded_are_counted_and_teach_nothing(tmp_path: Path) -> None:
    def moody(sample: Sample, output: Output) -> float:
        raise GradingError("no")

    table = Table()
    train(tmp_path, table, steps=1, reward=moody)
    assert not table.scores_NC.any()
    assert rows(tmp_path)[0]["ungraded"] == 4 * 16
    assert rows(tmp_path)[0]["reward"] is None


def test_what_cannot_be_trained_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="beta"):
        train(tmp_path, Table(), beta=0.1)
    table = Table()
    table.scores_NC.data[:] = math.nan
    with pytest.raises(DataError, match="not numbers"):
        train(tmp_path, table)


def test_the_temperature_of_a_group_of_that_name_is_logged(tmp_path: Path) -> None:
    log_temperature = nn.Parameter(torch.tensor(math.log(0.25)))
    weights = torch.linspace(0.0, 1.0, CANDIDATES)
    train_ranking(
        samples=samples()[:1],
        score=lambda asked: (weights / log_temperature.exp()).expand(len(asked), -1),
        reward=ndcg,
        settings=GRPOSettings(steps=1, prompts=1),
        seed=0,
        folder=tmp_path,
        groups=[
            ParameterGroup(name="temperature", parameters=[log_temperature], learning_rate=1e-9)
        ],
        hooks=Hooks(),
        advance=lambda count: None,
    )
    assert rows(tmp_path)[0]["temperature"] == pytest.approx(0.25, rel=1e-5)
