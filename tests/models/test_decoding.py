import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expbench.errors import ConfigError
from expbench.models.decoding import Completion, Request, plan_batches
from expbench.models.generation import choose, decode
from expbench.models.tiny import build_tokenizer
from tests.models.samples import Script

TOKENIZER = build_tokenizer()


def write(session: Script, *requests: Request, ends: set[int]) -> list[Completion]:
    return decode(session, requests, tokenizer=TOKENIZER, eos_ids=ends, temperature=0.0, seed=0)


def spell(text: str) -> list[int]:
    return list(TOKENIZER(text, add_special_tokens=False)["input_ids"])


def test_a_reply_that_ends_with_the_second_end_id_is_complete() -> None:
    done = write(Script([7, 8, 77, 0, 0]), Request(ids=[5], max_tokens=5), ends={4, 77})
    assert done[0].ids == [7, 8, 77] and done[0].stop_reason == "stop"


def test_padding_is_not_generated_text() -> None:
    replies = [[9] * (length - 1) + [2] + [0] * 8 for length in (3, 8, 5)]
    requests = [Request(ids=[5], max_tokens=8) for _ in replies]
    done = write(Script(*replies), *requests, ends={2})
    assert [len(reply.ids) for reply in done] == [3, 8, 5]


def test_rows_of_one_batch_keep_their_own_limits() -> None:
    session = Script([9] * 9, [8] * 9, [7] * 9)
    requests = [Request(ids=[5], max_tokens=limit) for limit in (4, 1, 2)]
    done = write(session, *requests, ends={2})
    assert [reply.ids for reply in done] == [[9] * 4, [8], [7] * 2]
    assert {reply.stop_reason for reply in done} == {"length"}
    assert session.steps == 3


def test_a_limit_of_nothing_generates_nothing() -> None:
    session = Script()
    done = write(session, Request(ids=[5], max_tokens=0), ends={2})
    assert done[0] == Completion(ids=[], text="", stop_reason="length")


def test_a_stop_string_across_tokens_ends_the_row_and_is_cut_off() -> None:
    session = Script(spell("say\nQuestion: and more"))
    done = write(session, Request(ids=[5], max_tokens=40, stop=("\nQuestion:",)), ends={2})
    assert done[0].text == "say" and done[0].stop_reason == "stop"
    assert len(done[0].ids) == len("say\nQuestion:")


def test_the_first_of_two_stop_strings_cuts_and_bytes_of_a_letter_may_be_split() -> None:
    session = Script(spell("größe§ und §§"))
    done = write(session, Request(ids=[5], max_tokens=40, stop=("§§", "ße§")), ends={2})
    assert done[0].text == "grö"


def test_the_end_token_is_counted_but_not_written() -> None:
    done = write(Script([*spell("ok"), 2, 9]), Request(ids=[5], max_tokens=9), ends={2, 3})
    assert done[0].text == "ok" and len(done[0].ids) == 3


def test_an_empty_prompt_or_stop_string_is_refused() -> None:
    with pytest.raises(ConfigError, match="0 prompt ids"):
        Request(ids=[], max_tokens=4)
    with pytest.raises(ConfigError, match="no empty stop string"):
        Request(ids=[5], max_tokens=4, stop=("",))


def test_logits_that_are_not_numbers_are_an_error() -> None:
    logits = torch.zeros(2, 5)
    logits[1, 3] = torch.nan
    with pytest.raises(ConfigError, match="not finite"):
        choose(logits, [None, None], temperature=0.0)


def test_draws_follow_the_distribution() -> None:
    odds = torch.tensor([0.1, 0.0, 0.6, 0.3])
    rows = odds.log().expand(4000, -1)
    dice: list[random.Random | None] = [random.Random(i) for i in range(4000)]
    counts = torch.bincount(torch.tensor(choose(rows, dice, temperature=1.0)), minlength=4)
    assert counts[1] == 0
    assert torch.allclose(counts / 4000, odds, atol=0.03)


def test_a_low_temperature_sharpens_the_choice() -> None:
    rows = torch.tensor([[1.0, 1.2]]).expand(500, -1)
    dice: list[random.Random | None] = [random.Random(i) for i in range(500)]
    cold, warm = (sum(choose(rows, dice, temperature=t)) for t in (0.05, 5.0))
    assert cold > 480 > 300 > warm


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(0, 40)), max_size=40),
    st.integers(1, 300),
    st.integers(1, 9),
)
def test_batches_hold_every_row_once_within_the_budget(
    sizes: list[tuple[int, int]], budget: int, most: int
) -> None:
    batches = plan_batches(sizes, batch_tokens=budget, max_rows=most)
    assert sorted(i for rows in batches for i in rows) == list(range(len(sizes)))
    for rows in batches:
        width = max(sizes[i][0] for i in rows) + max(sizes[i][1] for i in rows)
        assert len(rows) == 1 or (len(rows) <= most and len(rows) * width <= budget)
    assert batches == plan_batches(list(sizes), batch_tokens=budget, max_rows=most)
