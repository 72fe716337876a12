"""The mask audit: tokens that the policy did not write must teach nothing through themselves.

They are read as context like every other token, but their own log-probs have no part in the loss.
"""

from typing import Any

from expbench.errors import PluginError


class MaskAudit:
    """Watches the gradient of the loss with respect to the log-probs of external tokens."""

    def __init__(self) -> None:
        self.largest = 0.0
        """Greatest absolute gradient seen; exactly 0 where the mask holds."""
        self.masked = 0
        """External tokens counted since the last check."""

    def count(self, external_BT: Any) -> None:
        """Count the masked tokens of a batch.

        Args:
            external_BT: 1 for every token after the prompt that the policy did not write.
        """
        self.masked += int(external_BT.sum())

    def watch(self, log_probs_BT: Any, external_BT: Any) -> None:
        """Look at the gradient when it comes.

        Args:
            log_probs_BT: Log-probs of the tokens after the prompt, with gradients.
            external_BT: As for `count`.
        """
        if not log_probs_BT.requires_grad or not bool(external_BT.any()):
            return

        def look(gradient_BT: Any) -> None:
            self.largest = max(self.largest, float((gradient_BT.abs() * external_BT).max()))

        log_probs_BT.register_hook(look)

    def check(self, step: int, external: int) -> float:
        """Return the greatest gradient.

        Args:
            step: The optimizer step that ended.
            external: Tokens of its rollouts that the policy did not write, as the rollouts say.

        Raises:
            PluginError: other tokens are masked, or the gradient is not zero, so that the training
                learns to write what it was given.
        """
        masked, self.masked = self.masked, 0
        if masked != external:
            raise PluginError(
                f"At step {step} {masked} tokens are masked, but the policy did not write "
                f"{external}; the mask must be that of the rollouts."
            )
        if self.largest != 0.0:
            raise PluginError(
                f"At step {step} the loss has a gradient of {self.largest:g} through tokens that "
                "the policy did not write; they must be masked."
            )
        return self.largest
