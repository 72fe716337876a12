"""Diagnosis of methods on key-value worlds: does a method read what it has learnt from experience?

A world is a random mapping that nothing but its experiences tells. Importing this package loads no
torch.
"""
