"""The most frequent train answer for every question: what the class balance alone is worth."""

from expbench_methods.majority.method import Majority

METHOD = Majority
