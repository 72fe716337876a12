"""Backbone language models behind one door, `load_model`; importing this package loads no torch.

Names: `fake` (no weights, for tests of everything around a model), `tiny` (a random Llama of 0.2 M
parameters), a Hub name with an optional `@revision`, or a local folder. The backbone of the
`laptop` preset is `HuggingFaceTB/SmolLM2-135M-Instruct` (Apache-2.0); see `sources` for where its
files come from.
"""

from expbench.core import Model
from expbench.errors import ConfigError

DTYPES = ("auto", "float32", "bfloat16", "float16")
LAPTOP = "HuggingFaceTB/SmolLM2-135M-Instruct"
BUILT_IN = ("fake", "tiny", LAPTOP)


def load_model(
    name: str, *, device: str = "auto", dtype: str = "auto", batch_tokens: int | None = None
) -> Model:
    """Load a backbone by name.

    Args:
        name: `fake`, `tiny`, a Hub name (`owner/name` or `owner/name@revision`) or a local folder.
        device: `auto` (CUDA where there is one, else CPU), or what torch calls it: `cpu`, `cuda:1`.
        dtype: `auto` (bfloat16 where the hardware computes in it, else float32; always float32
            for `tiny`) or a dtype's name.
        batch_tokens: Most tokens (prompt and answer, padding included) that are decoded at once;
            None for the device's default. It never changes which tokens are asked for, only speed
            and memory.

    Raises:
        ConfigError: unknown device or dtype, a folder that is not there, not a causal language
            model, or too little memory.
        MissingData: the files cannot be had: no network, or access must be asked for.
        DataError: the files are not the ones that are pinned.
    """
    if dtype not in DTYPES:
        raise ConfigError(f"dtype is {dtype!r}; it must be one of {', '.join(DTYPES)}.")
    if batch_tokens is not None and batch_tokens < 1:
        raise ConfigError(f"batch_tokens is {batch_tokens}; it must be at least 1.")
    if name == "fake":
        from expbench.models.fake import FakeModel

        return FakeModel()
    from expbench.models.hf import HFModel

    return HFModel.load(name, device=device, dtype=dtype, batch_tokens=batch_tokens)


__all__ = ["BUILT_IN", "DTYPES", "LAPTOP", "load_model"]
