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

    def watch(self, log_probs_BT: Any, external_BT: Any) -> None:
        """Look at the gradient when it comes.

        Args:
            log_probs_BT: Log-probs of the tokens after the prompt, with gradients.
            external_BT: 1 for every token there that the policy did not write.
        """
        if not log_probs_BT.requires_grad or not bool(external_BT.any()):
            return

        def look(gradient_BT: Any) -> None:
            self.largest = max(self.largest, float((gradient_BT.abs() * external_BT).max()))

        log_probs_BT.register_hook(look)

    def check(self, step: int) -> float:
        """Return the greatest gradient.

        Raises:
            PluginError: it is not zero, so that the training learns to write what it was given.
        """
        if self.largest != 0.0:
            raise PluginError(
                f"At step {step} the loss has a gradient of {self.largest:g} through tokens that "
                "the policy did not write; they must be masked."
            )
        return self.largest
