"""Search-R1: the policy reasons, searches the experience pool in words, reads, and goes on."""

from expbench_methods.search_r1.method import SearchR1

METHOD = SearchR1
"""Method `search_r1`."""
