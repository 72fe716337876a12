"""One answer in the making: what was written, what was put in between, and what it cost."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from expbench.core import Output, Question, Segment, StopReason
from expbench.models.decoding import Completion, Request
from expbench.models.prompting import Rendered
from expbench.training.loop import Trajectory
from expbench_methods.search_r1.dialogue import END_ANSWER, END_SEARCH, graded_text, query_in
from expbench_methods.search_r1.observations import Observation

Decode = Callable[[Sequence[int]], str]
"""Token ids to text, without special tokens."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """An answer that is wanted."""

    question: Question
    key: str
    """Names its random streams together with the seed: one a turn."""
    limit: int
    """Tokens that the policy may write in all turns together."""


@dataclass(kw_only=True)
class Dialogue:
    """The turns of one answer.

    It is open until the model ends it, closes an answer block, or has written all it may. Every
    search tag that closes, whatever stands before it, ends a turn and uses up one search; when all
    are used up the tag ends nothing any more.
    """

    asked: Asked
    prompt: Rendered
    max_turns: int
    ids: list[int] = field(default_factory=list)
    """All that follows the prompt."""
    external: list[int] = field(default_factory=list)
    """Positions in `ids` that the policy did not write."""
    query: str | None = None
    """What is searched for now; empty for a search without words, None where nothing is."""
    stop_reason: StopReason | None = None
    """None while it is open."""

    def __post_init__(self) -> None:
        """Start with the prompt's cost: what the method adds to it counts as retrieved."""
        self._written: list[str] = []
        self._turns = 0
        self._events: list[Mapping[str, Any]] = []
        self._segments = [Segment(role="prompt", tokens=self.prompt.prompt_tokens)]
        if self.prompt.retrieved_tokens:
            self._segments.append(Segment(role="retrieved", tokens=self.prompt.retrieved_tokens))

    @property
    def left(self) -> int:
        """Tokens that the policy may still write."""
        return self.asked.limit - (len(self.ids) - len(self.external))

    @property
    def length(self) -> int:
        """Tokens of the context as it is."""
        return len(self.prompt.ids) + len(self.ids)

    def request(self) -> Request:
        """Ask for the next turn."""
        search = (END_SEARCH,) if self._turns < self.max_turns else ()
        return Request(
            ids=[*self.prompt.ids, *self.ids],
            max_tokens=self.left,
            stop=(*search, END_ANSWER, *self.asked.question.stop),
            key=f"{self.asked.key}/turn{self._turns}",
        )

    def take(self, done: Completion, decode: Decode, *, is_ended: bool) -> None:
        """Take a turn as it was sampled.

        The ids stay whole: a token that holds more characters than the closing tag keeps them.

        Args:
            done: What the model wrote.
            decode: Turns its ids into text.
            is_ended: Whether it ended with an end token.
        """
        self.ids += done.ids
        self._segments.append(Segment(role="generated", tokens=len(done.ids)))
        self.query = None
        closing = "" if is_ended else self._closing(done, decode)
        self._written.append(decode(done.ids) if closing else done.text)
        if closing == END_SEARCH and self.left > 0:
            self._turns += 1
            self.query = query_in(done.text)
        elif done.stop_reason == "length" or closing == END_SEARCH:
            self.stop_reason = "length"
        else:
            self.stop_reason = "stop"

    def tell(self, observation: Observation, found: Sequence[Question]) -> None:
        """Put in what the search brought back.

        Args:
            observation: Its tokens.
            found: The passages' samples, best first.
        """
        shown = found[: observation.shown]
        self.external += range(len(self.ids), len(self.ids) + len(observation.ids))
        self.ids += observation.ids
        if observation.ids:
            self._segments.append(Segment(role="retrieved", tokens=len(observation.ids)))
        self._events.append(
            {
                "search": self.query or "",
                "retrieved": tuple({"task": s.task, "sample_id": s.id} for s in shown),
                "tokens": len(observation.ids),
                "cut": observation.is_cut,
            }
        )
        self.query = None

    def trajectory(self) -> Trajectory:
        """Return the finished answer."""
        return Trajectory(
            prompt_ids=self.prompt.ids,
            ids=self.ids,
            external=tuple(self.external),
            output=Output(
                text=graded_text("".join(self._written)),
                stop_reason=self.stop_reason or "length",
                segments=tuple(self._segments),
                trace=tuple(self._events),
            ),
        )

    def _closing(self, done: Completion, decode: Decode) -> str:
        """Return the tag that ended a turn; empty where something else did."""
        if done.stop_reason != "stop":
            return ""
        rest = decode(done.ids)[len(done.text) :]
        # A stop string of the question's own ends the answer, as it does for every method.
        if any(rest.startswith(stop) for stop in self.asked.question.stop):
            return ""
        return next((tag for tag in (END_SEARCH, END_ANSWER) if rest.startswith(tag)), "")
