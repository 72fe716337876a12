"""The nouns of ExpBench, standard library only; every other module speaks in these.

Data flows one way: task -> question -> method -> output -> grade -> record -> report.
A method gets `Sample`s of the train split and only `Question`s of the test split: the target is not
in the type, so it cannot leak.
"""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

Split = Literal["train", "test"]
Scenario = Literal["general", "pharma-chemistry", "recommendation"]
Kind = Literal["math", "choice", "chem", "code", "ranking"]
Role = Literal["prompt", "retrieved", "generated"]
StopReason = Literal["stop", "length", "none"]

KINDS: tuple[Kind, ...] = ("math", "choice", "chem", "code", "ranking")


@dataclass(frozen=True, kw_only=True)
class Question:
    """What a method sees of a test sample."""

    id: str
    """Unique within the task, stable over suites and releases of this project."""
    task: str
    """Name of the task."""
    kind: Kind
    """The kind of answer asked for, which fixes prompt form and grader."""
    input: str
    """The problem in the source's own words, for retrieval and display."""
    prompt: str = ""
    """The task's words as every method puts them to the model; a method may add, never change."""
    labels: tuple[str, ...] = ()
    """Labels of `choices`, in the same order."""
    choices: tuple[str, ...] = ()
    """Texts to choose from (kind `choice`); two may be equal, so answers are labels."""
    candidates: tuple[str, ...] = ()
    """Titles to rank (kind `ranking`), distinct."""
    features: Mapping[str, Any] = field(default_factory=dict)
    """Inputs in machine-readable form: `smiles`, `property`, `history`, `candidate_ids`, ..."""
    max_tokens: int = 256
    """Most tokens a method may generate for the answer: the same limit for all methods."""
    stop: tuple[str, ...] = ()
    """Strings that end generation."""


@dataclass(frozen=True, kw_only=True)
class Sample(Question):
    """A question with its target: train samples, and what graders get."""

    target: tuple[str, ...]
    """Right answer: a label, number, LaTeX text, `Yes`/`No`, candidate position or solution."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """What only the grader needs, such as `test` and `entry_point` of a coding sample."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Strata that reports need, such as `property`, `template`, `subject`; copied to the record."""

    def question(self) -> Question:
        """Strip everything that a method must not see.

        >>> s = Sample(id="1", task="t", kind="math", input="1+1?", target=("2",))
        >>> hasattr(s.question(), "target")
        False
        """
        return Question(**{f.name: getattr(self, f.name) for f in fields(Question)})


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A stretch of the model's context with one role; the unit of the token meter."""

    role: Role
    """`prompt`: the task's words and chat template; `retrieved`: added from experience;
    `generated`: sampled by the policy."""
    tokens: int
    """Token ids the model consumed or produced; padding is never counted."""


@dataclass(frozen=True, kw_only=True)
class Output:
    """A method's answer to one question."""

    text: str = ""
    """What the model wrote, without special tokens and without the stop string."""
    ranking: tuple[int, ...] | None = None
    """Candidate positions, 0-based, best first, from a method that ranks without text."""
    stop_reason: StopReason = "stop"
    """`stop`: end token or stop string; `length`: cut off at the limit; `none`: no generation."""
    segments: tuple[Segment, ...] = ()
    """The answer's cost, in the order of the context."""
    trace: tuple[Mapping[str, Any], ...] = ()
    """What the method wants shown: retrieved ids, weights, searches."""

    def tokens(self, role: Role) -> int:
        """Count the tokens of one role."""
        return sum(s.tokens for s in self.segments if s.role == role)


@dataclass(frozen=True, kw_only=True)
class Score:
    """A grade.

    Raises:
        ValueError: value or a metric is not a number in [0, 1].
    """

    value: float
    """The task's headline metric for this sample, in [0, 1]; higher is better."""
    answer: str | None = None
    """The answer that was read out of the output; None where there was none."""
    explanation: str = ""
    """One sentence for people."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Further numbers in [0, 1] shown beside the headline, such as `hr@10`."""

    def __post_init__(self) -> None:
        """Refuse NaN and anything out of range."""
        for name, number in (("value", self.value), *self.metrics.items()):
            if not (math.isfinite(number) and 0.0 <= number <= 1.0):
                raise ValueError(f"Score {name} is {number!r}; it must lie in [0, 1].")


@dataclass(frozen=True, kw_only=True)
class Experience:
    """One graded attempt at a train sample: what every method learns from."""

    sample: Sample
    output: str
    score: Score
    summary: str = ""
    """A short text about the attempt; empty until a method or the collection writes it."""


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A question with what a method adds to it from experience.

    The model renders it with its chat template once and meters `context` and `shots` as retrieved
    tokens, so that a method cannot miscount.
    """

    question: Question
    context: str = ""
    """Text put before the task's words, in the same user turn."""
    shots: tuple[tuple[str, str], ...] = ()
    """Earlier (user, assistant) turns."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Where the official data of a task comes from."""

    dataset: str
    """Hub name (`owner/name`), or a short name for data behind plain URLs."""
    licence: str
    paper: str
    config: str | None = None
    """Hub configuration."""
    revision: str | None = None
    """Pinned Hub commit; None means the first pull records it in the lock file."""
    urls: Mapping[str, str] = field(default_factory=dict)
    """File name -> URL, for sources that are not on the Hub."""
    gated: bool = False
    """Access must be asked for on the Hub."""
    splits: tuple[str, ...] = ()
    """Official splits that are read, by name."""


Rows = Callable[[str], Sequence[Any]]
"""Official split name -> its rows (see `expbench.data`)."""
Grader = Callable[[Sample, Output], Score]
Reward = Callable[[Sample, Output], float]


@dataclass(frozen=True, kw_only=True)
class Task:
    """A task is a value; one file in `expbench.tasks` exports one as `TASK`."""

    name: str
    version: int
    """Raised whenever a change can move a score; versions are never mixed in one table."""
    title: str
    """One line for people."""
    scenario: Scenario
    group: str
    """Finer than scenario: `qa`, `reasoning`, `coding`, `chem`, `rec`."""
    kind: Kind
    metric: str
    """Name of the headline metric as the field writes it."""
    source: Source
    load: Callable[[Rows], Mapping[Split, Sequence[Sample]]]
    """Turns official rows into all samples of both splits, in canonical order."""
    prompt: Callable[[Question], str]
    grade: Grader
    gold: Callable[[Sample], str]
    """An answer text that must score 1."""
    max_tokens: int
    stop: tuple[str, ...] = ()
    macro_over: str = ""
    """Tag over whose values the headline is macro-averaged; empty for the plain mean."""


class Model(Protocol):
    """A backbone language model."""

    name: str
    """As the user gave it, or the Hub name."""
    fingerprint: str
    """Hash of weights, tokenizer and everything else that decides its outputs."""

    def generate(
        self, prompts: Sequence[Prompt], *, temperature: float = 0.0, seed: int = 0
    ) -> list[Output]:
        """Answer every prompt within its question's limits, in the order given.

        Temperature 0 is greedy. With sampling, the text of a prompt depends on its question id and
        the seed, not on the batch it came in.
        """
        ...

    def encode(self, texts: Sequence[str]) -> Any:
        """Return the last layer's hidden state at the last token, (texts, hidden) float32."""
        ...

    def count_tokens(self, text: str) -> int:
        """Count the tokens of a plain text without special tokens."""
        ...


class Method(Protocol):
    """What a method implements: built as `Cls(config, model, seed)`, then `fit`, then `answer`.

    Optional class attributes and their defaults: `uses_model = True`, `uses_experience = False`,
    `reference = False` (not a language-model method: shown apart), `kinds = KINDS`,
    `answer_only = ()` (Config fields that change how it answers but not what it learns). A method
    that trains for long may add `save(folder)` and `load(folder)`, and `workbench` (`Workbench`);
    `needs_weights = True` if a model without weights will not do; `ABLATIONS` (set -> row ->
    settings, for `expbench ablate`); after `fit`, `training_cost` (numbers by name; those ending in
    `tokens` are summed up in the cost table) and `notes`; `refuse_leaks(questions)`, asked before
    it answers.
    A Config with a field `mix` whose value is `scenario` is fitted once on the train samples of all
    tasks of a scenario; `Sample.task` tells them apart, and the reward grades each by its own task.
    """

    version: ClassVar[int]
    """Raised whenever a change can move a score."""
    Config: ClassVar[type]
    """A frozen dataclass with literal defaults."""

    def fit(
        self, train: Sequence[Sample], experience: Sequence[Experience], reward: Reward
    ) -> None:
        """Learn from the train split, the shared pool and the task's own grader."""
        ...

    def answer(self, questions: Sequence[Question]) -> list[Output]:
        """Answer in the order given, exactly one output a question."""
        ...


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """What the runner lends to a method that trains for long: a folder and a progress bar.

    A method asks for it by declaring `workbench: Workbench | None = None`; it is set before `fit`.
    """

    folder: Path
    """The checkpoint's folder: it survives a kill, so `fit` may keep its state and log here."""
    stage: Callable[[str, int], None] = lambda label, total: None
    """Begin a stage of `total` steps (0: not known), named by a short label."""
    advance: Callable[[int], None] = lambda count: None
    """Report finished steps of the stage."""


@dataclass(frozen=True, kw_only=True)
class NoConfig:
    """The `Config` of a method without settings."""


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """Everything that decides a result; its hash is the run id."""

    task: str
    task_version: int
    method: str
    method_version: int
    method_config: Mapping[str, Any]
    backbone: Mapping[str, Any]
    """`name`, `fingerprint`, `dtype`, `device` of the model; empty for methods without one."""
    preset: str
    suite: str
    """`mini`, `full`, or `dir` for `--data-dir`."""
    seed: int
    limits: Mapping[str, int]
    """`train`, `test`, `max_tokens`, `batch`; a limit of 0 means all."""
    data: Mapping[str, Any]
    """Revision, checksums of the drawn samples of both splits, and split sizes."""
    pool: str | None
    """Checksum of the experience pool, None for methods that do not read it."""
    sandbox: str = "bubblewrap"
    """How model-written code was isolated; `unsafe` only by explicit choice."""
    training: Mapping[str, Any] = field(default_factory=dict)
    """What a trained method learnt from: `key` of the checkpoint, `tasks` with their versions and
    checksums, `pools`; empty for methods that keep no checkpoint."""

    @property
    def run_id(self) -> str:
        """12 hex digits of SHA-256 over the canonical JSON; an empty `training` is left out."""
        values = asdict(self)
        if not values["training"]:
            del values["training"]
        return checksum(values)[:12]


@dataclass(frozen=True, kw_only=True)
class Record:
    """The result of one sample: one JSON line; exactly one of `score` and `error` is set."""

    run_id: str
    sample_id: str
    output: Output
    score: Score | None
    error: str | None
    seconds: float
    """Wall time of the answer: the batch's time divided by its size."""
    target: str = ""
    """The right answer, short enough to print; empty for coding samples."""
    tags: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a record that is both graded and broken, or neither."""
        if (self.score is None) == (self.error is None):
            raise ValueError("A record has exactly one of score and error.")


def canonical_json(value: Any) -> str:
    """Serialise with sorted keys and no spaces, so that equal values give equal text.

    >>> canonical_json({"b": 1, "a": (2,)})
    '{"a":[2],"b":1}'
    """
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def checksum(value: Any) -> str:
    """SHA-256 (hex) over the canonical JSON of a value."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()
