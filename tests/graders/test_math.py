import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expbench.core import Output, Sample
from expbench.errors import GradingError
from expbench.graders import math_pool
from expbench.graders.math import compare, grade_math, read_math
from expbench.graders.math_equal import equivalent
from expbench.graders.math_pool import Pool
from expbench.graders.math_text import plain_number

numbers = st.decimals(-(10**9), 10**9, places=3)


def never(gold: str, answer: str) -> bool:
    raise AssertionError(f"{gold} and {answer} need no computer algebra")


@given(numbers)
def test_a_number_equals_itself_however_it_is_written(number: object) -> None:
    for form in (
        f"{number}",
        f"{number:,}",
        f"${number:,}$",
        f"{number} cm",
        f"\\text{{{number}}}",
    ):
        assert equivalent(str(number), form, never), form


@given(numbers, numbers)
def test_two_numbers_are_equal_exactly_when_their_values_are(a: object, b: object) -> None:
    assert equivalent(str(a), str(b), never) == (Fraction(str(a)) == Fraction(str(b)))


@given(st.lists(st.integers(-99, 99), min_size=2, max_size=6, unique=True), st.randoms())
def test_the_order_of_solutions_is_free_and_that_of_a_tuple_is_not(
    values: list[int], random: "object"
) -> None:
    shuffled = values[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    as_list, other = ", ".join(map(str, values)), ", ".join(map(str, shuffled))
    assert equivalent(as_list, f"\\{{{other}\\}}", never)
    assert equivalent(f"({as_list})", f"({other})", never) == (values == shuffled)
    assert not equivalent(as_list, ", ".join(map(str, values[:-1])), never)


@pytest.mark.parametrize("text", ["5k", "3x", "2pi", "64_7", "1,2", "5 or 6", "2+3", "1/0", "--5"])
def test_what_is_not_one_number_is_not_read_as_one(text: str) -> None:
    assert plain_number(text) is None


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("The answer is 18 dollars because 3 eggs are eaten.", "18"),
        ("ANSWER: John has 18 apples left", "18"),
        ("She has 3 + 4 = 7 apples and 2 pears, which makes 9.", "9"),
        ("Answer: Let me compute. 16 - 3 = 13.\nSo she makes 26 dollars.", "26"),
        ("He walks 2*3 = <<2*3=6>>6 miles out of the 24 miles.", "6"),
        ("They have 12 pens and 3 caps", "3"),
        ("答案：42", "42"),
        ("**Final Answer:**\n\n$x = 5$", "5$"),
        ("I cannot solve this.", None),
    ],
)
def test_the_committed_answer_is_read(reply: str, answer: str | None) -> None:
    assert read_math(reply) == answer


def test_a_sample_without_reference_is_an_error_and_not_a_zero() -> None:
    sample = Sample(id="1", task="t", kind="math", input="", target=(" ",))
    with pytest.raises(GradingError, match="no reference"):
        grade_math(sample, Output(text="0"))


def test_expressions_go_to_computer_algebra_from_any_thread() -> None:
    pairs = [(r"\sqrt{8}", r"2\sqrt{2}", True), ("x^2-1", "(x-1)(x+2)", False)] * 6
    with ThreadPoolExecutor(6) as threads:
        found = list(threads.map(lambda pair: compare(pair[0], pair[1]).equal, pairs))
    assert found == [equal for _, _, equal in pairs]


def test_a_comparison_past_its_deadline_is_killed_and_the_next_one_works() -> None:
    pool = Pool(workers=1)
    try:
        assert pool.compare("1", r"\sqrt{1}", seconds=5).equal
        late = pool.compare("1", "(10^{8})!", seconds=0.5)
        assert not late.equal and late.trouble.startswith("timeout")
        assert pool.compare("1", r"\sqrt{1}", seconds=5).equal
    finally:
        pool.close()


def test_a_worker_that_dies_is_an_error_and_is_replaced() -> None:
    pool = Pool(workers=1)
    try:
        assert pool.compare("1", r"\sqrt{1}", seconds=5).equal
        pool._idle[0].process.kill()
        pool._idle[0].process.wait()
        with pytest.raises(GradingError, match="ended with code"):
            pool.compare("1", r"\sqrt{1}", seconds=5)
        assert pool.compare("1", r"\sqrt{1}", seconds=5).equal
    finally:
        pool.close()


def test_a_worker_that_cannot_start_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("raise SystemExit('no math-verify here')")
    monkeypatch.setattr(math_pool, "WORKER", broken)
    with pytest.raises(GradingError, match="no math-verify here"):
        Pool().compare("1", "2", seconds=5)


def test_no_worker_outlives_its_interpreter() -> None:
    script = """
        from expbench.graders import math_pool
        assert math_pool.compare("1", r"\\sqrt{1}", seconds=5).equal
        print(*(worker.process.pid for worker in math_pool._pool._all))
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    pids = run.stdout.split()
    assert pids and not any(Path("/proc", pid).exists() for pid in pids)
