"""Uniform guessing: what a score is worth when nothing is known."""

from expbench_methods.random.method import Random

METHOD = Random
