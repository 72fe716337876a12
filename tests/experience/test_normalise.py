import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expbench.errors import ConfigError, DataError
from expbench.experience.normalise import Statistics

NUMBERS = st.floats(-1e6, 1e6, width=32)


def states(count: int = 50, width: int = 8) -> torch.Tensor:
    generator = torch.Generator().manual_seed(count)
    return 3 + 2 * torch.randn(count, width, generator=generator)


def test_standardised_states_have_mean_zero_and_one_scale_for_all_components() -> None:
    x = states() * torch.arange(1, 9)
    z = Statistics.of(x, "standardise").apply(x)
    assert torch.allclose(z.mean(0), torch.zeros(8), atol=1e-5)
    assert abs(float(z.square().mean()) - 1) < 1e-5
    assert z.std(0)[-1] > 4 * z.std(0)[0]  # components keep their proportions


def test_centred_states_keep_their_scale() -> None:
    x = states()
    z = Statistics.of(x, "centre").apply(x)
    assert torch.allclose(z, x - x.mean(0), atol=1e-5)


def test_none_changes_nothing() -> None:
    x = states()
    assert torch.equal(Statistics.of(x, "none").apply(x), x)
    assert torch.equal(Statistics.identity(8).apply(x), x)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.integers(1, 40))
def test_equal_states_become_exact_zeros_and_never_nan(state: list[float], count: int) -> None:
    x = torch.tensor([state] * count)
    assert torch.equal(Statistics.of(x, "standardise").apply(x), torch.zeros_like(x))


def test_no_states_give_the_identity() -> None:
    statistics = Statistics.of(torch.zeros(0, 4), "standardise")
    assert statistics.scale == 1 and torch.equal(statistics.centre_D, torch.zeros(4))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_single(dtype: torch.dtype) -> None:
    x = states().to(dtype)
    assert torch.equal(
        Statistics.of(x, "standardise").apply(x),
        Statistics.of(x.float(), "standardise").apply(x.float()),
    )


def test_a_running_mean_moves_by_its_rate() -> None:
    old, fresh = Statistics(torch.zeros(2), 1.0), Statistics(torch.tensor([1.0, 2.0]), 3.0)
    moved = old.moved(fresh, 0.25)
    assert moved.centre_D.tolist() == [0.25, 0.5] and moved.scale == 1.5
    assert torch.equal(old.moved(fresh, 1.0).centre_D, fresh.centre_D)
    with pytest.raises(ConfigError, match="rate"):
        old.moved(fresh, 1.5)


def test_an_unknown_kind_and_broken_states_are_refused() -> None:
    with pytest.raises(ConfigError, match="none, centre, standardise"):
        Statistics.of(states(), "whiten")  # type: ignore[arg-type]
    with pytest.raises(DataError):
        Statistics.of(torch.tensor([[1.0, float("nan")]]), "centre")
    with pytest.raises(DataError, match="scale"):
        Statistics(torch.zeros(2), 0.0)
