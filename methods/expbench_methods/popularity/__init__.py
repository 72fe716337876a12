"""Candidates in the order of how many train users met them: what popularity alone is worth."""

from expbench_methods.popularity.method import Popularity

METHOD = Popularity
"""Method `popularity`."""
