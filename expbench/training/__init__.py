"""Training: GRPO on text through TRL, GRPO on rankings, LoRA; importing this loads no torch.

`grpo` is the one module that knows TRL; `ranking` holds the Plackett-Luce policy; `lora` knows
PEFT; `settings` holds the budget that all trained methods share.
"""
