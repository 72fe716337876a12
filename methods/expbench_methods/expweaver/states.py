"""Final hidden states at the places where answer tokens are chosen, by teacher forcing."""

from collections.abc import Sequence

import torch
from torch import Tensor

from expbench.models.hf import HFModel


def answer_states(
    model: HFModel, prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> list[Tensor]:
    """Return, for each pair, the decoder's output at the positions that predict the answer.

    Args:
        model: Its decoder is run as it is: inside `bypassed` the states are those before fusion.
        prompts: Token ids, at least one each.
        answers: Token ids; an empty answer gives the prompt's last state alone.

    Returns:
        One (max(1, answer tokens), D) tensor a pair; row t predicts answer token t.
    """
    found = []
    body = model.module.get_decoder()
    with torch.no_grad():
        for prompt, answer in zip(prompts, answers, strict=True):
            ids_1T = torch.tensor([[*prompt, *answer][: len(prompt) + max(0, len(answer) - 1)]])
            hidden = body(input_ids=ids_1T.to(model.module.device), use_cache=False)
            found.append(hidden.last_hidden_state[0, len(prompt) - 1 :])
    return found
