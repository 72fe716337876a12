"""The gates that mix a token's embedding with what the policy expected (arXiv 2505.18454).

Shapes: N positions, D hidden size.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

SHARPNESS = 8.0
"""c in a = exp(-c softplus(-Lambda) r)."""


class Gates(nn.Module):
    """e' = a e + sqrt(1 - a^2) (i h), with gates r and i read from e.

    All parameters are float32 and so is the computation. Lambda starts so that
    exp(-c softplus(-Lambda)), which is a at r = 1, is drawn evenly from the given range.

    Args:
        width: D.
        r_min: Least value of that range, above 0.
        r_max: Greatest one, below 1.
        seed: Of the initial weights.
    """

    def __init__(self, width: int, *, r_min: float, r_max: float, seed: int) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.retain, self.admit = nn.Linear(width, width), nn.Linear(width, width)
            for gate in (self.retain, self.admit):
                nn.init.normal_(gate.weight, std=0.02)
                nn.init.zeros_(gate.bias)
            start_D = torch.empty(width, dtype=torch.float64).uniform_(r_min, r_max)
        # The inverse of softplus, of what the exponent is to be.
        self.decay = nn.Parameter(-torch.log(torch.expm1(-torch.log(start_D) / SHARPNESS)).float())

    def retained(self) -> Tensor:
        """Return exp(-c softplus(-Lambda)), (D,): the least share of the embedding that stays."""
        return torch.exp(-SHARPNESS * functional.softplus(-self.decay))

    def forward(self, e_ND: Tensor, latent_ND: Tensor) -> Tensor:
        """Mix.

        Args:
            e_ND: Embeddings of the sampled tokens.
            latent_ND: What was expected there, float32: see `expected`.

        Returns:
            e' in the dtype of the embeddings.
        """
        own_ND = e_ND.float()
        rate_ND = SHARPNESS * functional.softplus(-self.decay) * torch.sigmoid(self.retain(own_ND))
        # The root of an exact 0 has no gradient.
        rate_ND = rate_ND.clamp_min(torch.finfo(rate_ND.dtype).tiny)
        # 1 - a^2 as expm1 loses no digits where a is close to 1.
        room_ND = torch.sqrt(-torch.expm1(-2 * rate_ND))
        mixed_ND = torch.exp(-rate_ND) * own_ND + room_ND * (
            torch.sigmoid(self.admit(own_ND)) * latent_ND
        )
        return mixed_ND.to(e_ND.dtype)


def expected(logits_NV: Tensor, weight_VD: Tensor, *, temperature: float) -> Tensor:
    """Project distributions over the next token into embedding space.

    Args:
        logits_NV: What the tokens were sampled from.
        weight_VD: The embedding matrix.
        temperature: Of the distribution.

    Returns:
        (N, D) float32: the probability-weighted sum of all embeddings, over the root of the summed
        squared probabilities, so that it is about as long as one embedding however flat the
        distribution is.
    """
    p_NV = torch.softmax(logits_NV.float() / temperature, dim=-1)
    sum_ND = (p_NV.to(weight_VD.dtype) @ weight_VD).float()
    root_N1: Tensor = torch.linalg.vector_norm(p_NV, dim=-1, keepdim=True)
    return sum_ND / root_N1
