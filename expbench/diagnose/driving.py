"""One door for both kinds of methods.

A latent method is trained on worlds with the toy backbone (`latent`); any other method that uses
experience is asked as it is on a real backbone (`text`); a method without experience is refused.
"""

from collections.abc import Mapping, Sequence

from expbench.diagnose.asking import Progress
from expbench.diagnose.findings import Diagnosis
from expbench.diagnose.latent import Mode, diagnose_latent
from expbench.diagnose.text import diagnose_text
from expbench.errors import ConfigError
from expbench.models import LAPTOP
from expbench.registry import MethodInfo


def diagnose(
    method: MethodInfo,
    *,
    settings: Mapping[str, str],
    seeds: Sequence[int],
    mode: Mode | None,
    model: str | None,
    progress: Progress,
) -> Diagnosis:
    """Run a method on key-value worlds, once a seed.

    Args:
        method: A latent method, or one that uses experience as text.
        settings: Overrides of its Config; a latent method's come on top of `latent.SETTINGS`.
        seeds: At least one.
        mode: How a latent method learns, None for `supervised`.
        model: Backbone of a text method, None for the laptop's.
        progress: Told of stages and steps.

    Raises:
        ConfigError: the method uses no experience, or an argument is not for its kind.
        UnknownName: a setting that the method does not have.
    """
    if hasattr(method.cls, "learn_worlds"):
        if model is not None:
            raise ConfigError(
                f"{method.name} is trained on the toy backbone for this; leave --model out."
            )
        return diagnose_latent(
            method, settings=settings, seeds=seeds, mode=mode or "supervised", progress=progress
        )
    if not method.uses_experience:
        raise ConfigError(
            f"{method.name} does not use experience, so there is nothing to diagnose; "
            "give a method that does, such as few_shot or expweaver."
        )
    if mode is not None:
        raise ConfigError(
            f"--mode is for methods that are trained on worlds; {method.name} is asked as it is. "
            "Leave --mode out."
        )
    return diagnose_text(
        method, settings=settings, seeds=seeds, model=model or LAPTOP, progress=progress
    )
