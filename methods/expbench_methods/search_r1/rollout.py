"""The rollout, the same for training and for answering: turns of all rows side by side."""

from collections.abc import Sequence

from expbench.core import Prompt
from expbench.experience.retrieval import Query
from expbench.experience.searcher import Searcher
from expbench.models.hf import HFModel
from expbench.training.loop import Trajectory
from expbench_methods.search_r1.dialogue import instruction
from expbench_methods.search_r1.observations import ObservationWriter
from expbench_methods.search_r1.turns import Asked, Decode, Dialogue


def play(
    model: HFModel,
    asked: Sequence[Asked],
    *,
    searcher: Searcher,
    writer: ObservationWriter,
    max_turns: int,
    temperature: float,
    seed: int,
) -> list[Trajectory]:
    """Let the policy answer, searching where it asks to.

    In each round all open answers get their next turn in one batch, and all searches of the round
    are answered together. Every turn reads its context anew.

    Args:
        model: The policy.
        asked: What is wanted; the trajectories come in this order.
        searcher: Finds experiences.
        writer: Puts into tokens what was found.
        max_turns: Searches of an answer that are served.
        temperature: 0 for greedy answers.
        seed: Decides, with each key, what is drawn.

    Raises:
        ConfigError: a prompt does not fit the model's context with all that may be written.
    """
    told = instruction(max_turns)
    dialogues = [
        Dialogue(
            asked=one,
            prompt=model.render(Prompt(question=one.question, context=told)),
            max_turns=max_turns,
        )
        for one in asked
    ]
    live = dialogues
    while live:
        requests = [dialogue.request() for dialogue in live]
        turns = model.generate_ids(requests, temperature=temperature, seed=seed)
        for dialogue, done in zip(live, turns, strict=True):
            is_ended = bool(done.ids) and done.ids[-1] in model.eos_ids
            dialogue.take(done, _decoder(model), is_ended=is_ended)
        live = [dialogue for dialogue in live if dialogue.stop_reason is None]
        _look_up(live, searcher, writer, model.context_limit)
    return [dialogue.trajectory() for dialogue in dialogues]


def _look_up(
    live: Sequence[Dialogue],
    searcher: Searcher,
    writer: ObservationWriter,
    context_limit: int | None,
) -> None:
    """Answer the searches of a round; what the policy may still write keeps its room."""
    results = searcher.find([(d.asked.question, Query(text=d.query or "")) for d in live])
    for dialogue, found in zip(live, results, strict=True):
        room = writer.limit
        if context_limit is not None:
            room = context_limit - dialogue.length - dialogue.left
        observation = writer.write([entry.summary for entry in found], room)
        dialogue.tell(observation, [entry.sample for entry in found])


def _decoder(model: HFModel) -> Decode:
    def decode(ids: Sequence[int]) -> str:
        return str(model.tokenizer.decode(ids, skip_special_tokens=True))

    return decode
