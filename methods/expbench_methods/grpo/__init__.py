"""GRPO on the backbone, without retrieval: what reinforcement learning alone gives."""

from expbench_methods.grpo.method import GRPO

METHOD = GRPO
"""Method `grpo`."""
