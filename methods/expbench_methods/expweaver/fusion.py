"""Gated fusion of retrieved experience into the last hidden state (arXiv 2606.01041).

Shapes: X any leading dimensions, T tokens, D hidden size, N entries of the bank, U distinct
retrieved ones, K retrieved a token, H heads, W = D / H.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from expbench.errors import ConfigError
from expbench.experience.bank import Memory
from expbench_methods.expweaver.config import FusionSettings

SHARPNESS = 8.0
"""c in a = exp(-c softplus(-Lambda) r), as in the HRPO release."""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """What a few tokens retrieved and how much of it came through."""

    positions_TK: Tensor
    """Positions in the memory, most similar first."""
    weights_TK: Tensor
    """Shares of the retrieved entries, mean over heads; rows sum to 1."""
    gate_T: Tensor
    """Mean over dimensions of sqrt(1 - a^2) i: 0 is closed."""


class Fusion(nn.Module):
    """h' = a h + sqrt(1 - a^2) (i e), with e read from the bank by attention.

    All parameters are float32 and so is the computation; the result has the state's own dtype.
    Lambda starts so that a is uniform in the configured range over the dimensions, at r = 1/2.

    Args:
        width: D.
        settings: See `FusionSettings`.
        seed: Of the initial weights.

    Raises:
        ConfigError: `heads` does not divide D.
    """

    def __init__(self, width: int, settings: FusionSettings, *, seed: int) -> None:
        super().__init__()
        if width % settings.heads:
            raise ConfigError(
                f"heads is {settings.heads}; it must divide the backbone's hidden size {width}."
            )
        self.width = width
        self.settings = settings
        self.is_open = True
        self._memory: Memory | None = None
        self._projected: tuple[tuple[object, ...], Tensor, Tensor] | None = None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.token = nn.Parameter(torch.randn(width) * 0.02)
            self.w_q, self.w_k, self.w_v, self.w_o = (
                nn.Linear(width, width, bias=False) for _ in range(4)
            )
            for linear in (self.w_q, self.w_k, self.w_v, self.w_o):
                nn.init.xavier_uniform_(linear.weight)
            self.retain, self.admit = nn.Linear(width, width), nn.Linear(width, width)
            for gate in (self.retain, self.admit):
                # Small beside any state's length, so that the gates start where they are set.
                nn.init.normal_(gate.weight, std=0.1 / math.sqrt(width))
                nn.init.zeros_(gate.bias)
            self.decay = nn.Parameter(_initial_decay(width, settings))

    @property
    def memory(self) -> Memory | None:
        """The frozen view of the bank that is read; None for no bank."""
        return self._memory

    @memory.setter
    def memory(self, memory: Memory | None) -> None:
        self._memory = None if memory is None else memory.to(self.token.device)
        self._projected = None

    @property
    def is_active(self) -> bool:
        """Tell whether `forward` changes anything."""
        return (
            self.is_open
            and self.settings.frequency != "never"
            and self._memory is not None
            and len(self._memory) > 0
        )

    def groups(self) -> dict[str, list[nn.Parameter]]:
        """Return the parameters by the learning rate they want."""
        linear = (self.w_q, self.w_k, self.w_v, self.w_o)
        attention = [self.token, *(p for part in linear for p in part.parameters())]
        gates = [*self.retain.parameters(), *self.admit.parameters()]
        return {"attention": attention, "gates": gates, "decay": [self.decay]}

    def forward(self, h_XD: Tensor, found_XK: Tensor | None = None) -> Tensor:
        """Fuse.

        Args:
            h_XD: States after the final norm.
            found_XK: Positions to read instead of those nearest to each state.

        Returns:
            h' of the same shape and dtype; the very same tensor where nothing is to be read.
        """
        if not self.is_active:
            return h_XD
        h_TD = h_XD.reshape(-1, self.width).float()
        query_TD = self._query(h_TD)
        if found_XK is None:
            found_TK = self._search(query_TD)
        else:
            found_TK = found_XK.reshape(len(h_TD), -1)
        e_TD, _ = self._aggregate(query_TD, found_TK)
        keep_TD, admit_TD = self._gates(h_TD)
        fused_TD = keep_TD * h_TD + admit_TD * self._aligned(e_TD, h_TD)
        return fused_TD.to(h_XD.dtype).reshape(h_XD.shape)

    def retrieve(self, h_XD: Tensor) -> Tensor:
        """Return the positions of the entries nearest to each state, (X, K)."""
        found_TK = self._search(self._query(h_XD.reshape(-1, self.width).float()))
        return found_TK.reshape(*h_XD.shape[:-1], -1)

    def explain(self, h_TD: Tensor, found_TK: Tensor | None = None) -> Explanation:
        """Say what states before fusion retrieve, how it is weighed and how open the gate is."""
        h_TD = h_TD.float()
        query_TD = self._query(h_TD)
        if found_TK is None:
            found_TK = self._search(query_TD)
        _, weights_TK = self._aggregate(query_TD, found_TK)
        return Explanation(
            positions_TK=found_TK, weights_TK=weights_TK, gate_T=self._gates(h_TD)[1].mean(1)
        )

    def _query(self, h_TD: Tensor) -> Tensor:
        assert self._memory is not None
        return self._memory.query.apply(h_TD)

    def _search(self, query_TD: Tensor) -> Tensor:
        assert self._memory is not None
        return self._memory.index.search(query_TD.detach(), self.settings.k)[1]

    def _gates(self, h_TD: Tensor) -> tuple[Tensor, Tensor]:
        """Return a and sqrt(1 - a^2) i."""
        rate_TD = SHARPNESS * functional.softplus(-self.decay) * torch.sigmoid(self.retain(h_TD))
        keep_TD = torch.exp(-rate_TD)
        # 1 - a^2 as expm1 loses no digits where a is close to 1.
        room_TD = torch.sqrt(-torch.expm1(-2 * rate_TD))
        return keep_TD, room_TD * torch.sigmoid(self.admit(h_TD))

    def _aligned(self, e_TD: Tensor, h_TD: Tensor) -> Tensor:
        if not self.settings.norm_alignment:
            return e_TD
        wanted_T1: Tensor = torch.linalg.vector_norm(h_TD, dim=1, keepdim=True)
        length_T1: Tensor = torch.linalg.vector_norm(e_TD, dim=1, keepdim=True)
        return e_TD * (wanted_T1 / length_T1.clamp_min(1e-6))

    def _aggregate(self, query_TD: Tensor, found_TK: Tensor) -> tuple[Tensor, Tensor]:
        """Return e and the weights of the retrieved entries (mean over heads)."""
        count = found_TK.shape[1]
        even_TK = torch.full(found_TK.shape, 1.0 / count, device=found_TK.device)
        how = self.settings.aggregation
        keys_ND, values_ND, places_TK = self._rows(found_TK)
        values_TKD = functional.embedding(places_TK, values_ND)
        if how == "top1":
            first_TK = torch.zeros_like(even_TK).index_fill_(
                1, torch.zeros(1, dtype=torch.long, device=found_TK.device), 1.0
            )
            return self.w_o(values_TKD[:, 0]), first_TK
        if how == "mean":
            return self.w_o(values_TKD.mean(1)), even_TK
        if how == "max":
            return self.w_o(values_TKD.amax(1)), even_TK
        return self._attend(query_TD, functional.embedding(places_TK, keys_ND), values_TKD)

    def _attend(
        self, query_TD: Tensor, keys_TKD: Tensor, values_TKD: Tensor
    ) -> tuple[Tensor, Tensor]:
        tokens, count = keys_TKD.shape[:2]
        heads, wide = self.settings.heads, self.width // self.settings.heads
        conditioned = self.settings.query == "token+state"
        u_TD = self.token + query_TD if conditioned else self.token.expand(tokens, -1)
        q_THW1 = self.w_q(u_TD).view(tokens, heads, wide, 1)
        k_THKW = keys_TKD.view(tokens, count, heads, wide).transpose(1, 2)
        v_THKW = values_TKD.view(tokens, count, heads, wide).transpose(1, 2)
        weights_THK = torch.softmax((k_THKW @ q_THW1).squeeze(-1) / math.sqrt(wide), dim=-1)
        mixed_THW = (weights_THK.unsqueeze(2) @ v_THKW).squeeze(2)
        return self.w_o(mixed_THW.reshape(tokens, -1)), weights_THK.mean(1)

    def _rows(self, found_TK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return projected keys and values and, into them, the places of the retrieved entries.

        With gradients only the entries that were retrieved are projected, each once; without, all
        of them are, once for as long as neither the weights nor the bank change.
        """
        assert self._memory is not None
        z_ND = self._memory.z_ND.detach()
        if torch.is_grad_enabled():
            distinct_U, places_TK = torch.unique(found_TK, return_inverse=True)
            z_UD = z_ND[distinct_U]
            return self.w_k(z_UD), self.w_v(z_UD), places_TK
        stamp = (
            self.w_k.weight._version, self.w_v.weight._version, self.w_k.weight.data_ptr(),
            self.w_v.weight.data_ptr(), id(self._memory),
        )  # fmt: skip
        if self._projected is None or self._projected[0] != stamp:
            self._projected = (stamp, self.w_k(z_ND), self.w_v(z_ND))
        return self._projected[1], self._projected[2], found_TK


def _initial_decay(width: int, settings: FusionSettings) -> Tensor:
    """Choose Lambda so that a is uniform in the configured range at the initial gate r = 1/2."""
    keep_D = torch.empty(width).uniform_(settings.gate_low, settings.gate_high)
    soft_D = -torch.log(keep_D) / (SHARPNESS * 0.5)
    # softplus(-Lambda) = s  <=>  Lambda = -log(exp(s) - 1)
    return -torch.log(torch.expm1(soft_D))
