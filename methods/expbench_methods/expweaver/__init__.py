"""Latent retrieval from an experience bank, woven into every decoding step; see README.md here."""

from expbench_methods.expweaver.method import ExpWeaver

METHOD = ExpWeaver
"""Method `expweaver`."""
