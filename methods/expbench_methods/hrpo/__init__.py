"""HRPO: hybrid latent reasoning, inputs that mix the sampled token with all that were likely."""

from expbench_methods.hrpo.method import HRPO

METHOD = HRPO
"""Method `hrpo`."""
