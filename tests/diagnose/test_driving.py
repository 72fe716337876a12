"""Both drivers, with methods made for the purpose: one that reads, one that cheats, one deaf."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from expbench.core import Experience, Model, NoConfig, Output, Question, Reward, Sample
from expbench.diagnose import latent
from expbench.diagnose.driving import diagnose
from expbench.diagnose.findings import Diagnosis
from expbench.diagnose.latent import toy_settings
from expbench.diagnose.worlds import KEYS, World, make_world
from expbench.errors import ConfigError, UnknownName
from expbench.registry import MethodInfo, get_method


@pytest.fixture(autouse=True)
def no_backbone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The methods of this file need none, and the toy takes a second to build."""
    monkeypatch.setattr(latent, "build_toy", lambda seed: None)


class Watch:
    def __init__(self) -> None:
        self.stages: list[tuple[str, int]] = []
        self.done = 0

    def stage(self, label: str, total: int) -> None:
        self.stages.append((label, total))

    def advance(self, count: int) -> None:
        self.done += count


@dataclass(frozen=True, kw_only=True)
class ReaderConfig:
    k: int = 2
    steps: int = 7
    temperature: float = 1.0


class Reader:
    """Looks the answer up in what it is given."""

    version = 1
    Config: type[Any] = ReaderConfig
    uses_experience = True

    def __init__(self, config: Any, model: Model, seed: int) -> None:
        self.config = config
        self.model = model
        self.known: dict[str, Experience] = {}

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        assert not train
        assert all(reward(e.sample, Output(text=e.output)) == 1.0 for e in experience)
        self.known = {e.sample.prompt: e for e in experience}

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        return [self.one(question) for question in questions]

    def one(self, question: Question) -> Output:
        assert not isinstance(question, Sample)
        found = self.known.get(question.prompt)
        if found is None:
            return Output(text="v0", trace=({"retrieved": ()},))
        return Output(text=found.output, trace=({"retrieved": (found.sample.id,)},))


class Latent(Reader):
    """The same behind the hooks of a latent method."""

    def learn_worlds(
        self, worlds: Iterator[World], *, mode: str, advance: Callable[[int], None]
    ) -> Mapping[str, float]:
        seen = [next(worlds) for _ in range(self.config.steps)]
        advance(len(seen))
        return {"worlds": float(len(seen)), "grpo": float(mode == "grpo")}

    def answer_world(
        self, experience: Sequence[Experience], questions: Sequence[Question], *, control: str
    ) -> list[Output]:
        self.known = {e.sample.prompt: e for e in experience if control != "closed_gate"}
        return self.answer(questions)


class Cheat(Latent):
    """Knows the answers from elsewhere; shows what it retrieved all the same."""

    def one(self, question: Question) -> Output:
        _, seed, index, key = question.id.split("-")
        value = make_world(int(index), seed=int(seed)).values[int(key)]
        return replace(super().one(question), text=value)


class Deaf(Latent):
    def one(self, question: Question) -> Output:
        return Output(text="v0")


def info_of(cls: type[Any], **changes: Any) -> MethodInfo:
    info = MethodInfo(
        name=cls.__name__.lower(),
        cls=cls,
        version=1,
        summary="",
        origin="tests",
        uses_model=False,
        uses_experience=True,
        reference=False,
        kinds=("math",),
    )
    return replace(info, **changes)


def run(info: MethodInfo, **changes: Any) -> Diagnosis:
    arguments: dict[str, Any] = {
        "settings": {}, "seeds": (0,), "mode": None, "model": None, "progress": Watch(),
    }  # fmt: skip
    return diagnose(info, **{**arguments, **changes})


def rates(found: Diagnosis) -> dict[str, float]:
    return {control: rate.value for control, rate in found.rates.items()}


def test_a_latent_reader_is_found_to_read() -> None:
    watch = Watch()
    found = run(info_of(Latent), seeds=(3,), mode="grpo", progress=watch)
    assert rates(found)["none"] == 1.0
    assert all(rate <= 0.2 for control, rate in rates(found).items() if control != "none")
    assert all(finding.good for finding in found.findings)
    assert found.hit is not None
    assert found.hit.value == 1.0
    assert found.places == 1.0
    assert found.readings[0].numbers == {"worlds": 200.0, "grpo": 1.0}
    assert [label for label, _ in watch.stages] == ["seed 3: learning", "seed 3: answering"]
    assert watch.done == sum(total for _, total in watch.stages)


def test_a_cheat_is_found_not_to_read_its_bank() -> None:
    found = run(info_of(Cheat))
    bad = [finding.text for finding in found.findings if not finding.good]
    assert len(bad) == 4
    assert sum(text.startswith("Does not read its bank") for text in bad) == 3
    assert sum(text.startswith("Does not need its bank") for text in bad) == 1


def test_a_deaf_method_is_found_to_have_learnt_nothing() -> None:
    found = run(info_of(Deaf))
    assert [finding.topic for finding in found.findings] == ["learning"]
    assert not found.findings[0].good
    assert found.hit is None
    assert found.gate is None


def test_a_text_reader_goes_through_fit_and_answer() -> None:
    found = run(info_of(Reader), seeds=(0, 1))
    assert found.protocol == "text"
    assert found.backbone == "none"
    assert rates(found) | {"shuffled": 0.0} == {
        "none": 1.0, "empty": 0.0, "shuffled": 0.0, "random": 0.0,
    }  # fmt: skip
    assert rates(found)["shuffled"] <= 0.3
    assert all(finding.good for finding in found.findings)


def test_seeds_ask_about_different_worlds_and_a_repeat_gives_the_same() -> None:
    both = run(info_of(Latent), seeds=(0, 1))
    first, second = (reading.marks["shuffled"] for reading in both.readings)
    assert first != second
    again = run(info_of(Latent), seeds=(0,))
    assert again.readings[0].marks == both.readings[0].marks


def test_few_shot_is_diagnosed_as_text() -> None:
    found = run(get_method("few_shot"), model="fake", settings={"k": "8"})
    assert found.hit is not None
    assert found.hit.value == 1.0
    assert found.places == KEYS
    half = run(get_method("few_shot"), model="fake", settings={"k": "4"})
    assert half.hit is not None
    assert half.hit.value == 0.5


def test_toy_settings_reach_only_fields_that_the_method_has() -> None:
    assert toy_settings(ReaderConfig, "grpo", {}) == {"k": "4", "steps": "200"}
    assert toy_settings(ReaderConfig, "supervised", {"k": "1"}) == {"k": "1", "steps": "80"}
    assert toy_settings(NoConfig, "grpo", {}) == {}
    assert ReaderConfig().k == 2


def test_what_cannot_be_diagnosed_is_refused_with_a_reason() -> None:
    with pytest.raises(ConfigError, match="direct does not use experience"):
        run(get_method("direct"))
    with pytest.raises(ConfigError, match="leave --model out"):
        run(info_of(Latent), model="fake")
    with pytest.raises(ConfigError, match="Leave --mode out"):
        run(info_of(Reader), mode="grpo")
    with pytest.raises(UnknownName, match="setting of method 'latent'"):
        run(info_of(Latent), settings={"knobs": "3"})
