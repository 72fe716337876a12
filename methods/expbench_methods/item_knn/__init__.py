"""Candidates by how often train users met them together with the items of the history."""

from expbench_methods.item_knn.method import ItemKNN

METHOD = ItemKNN
"""Method `item_knn`."""
