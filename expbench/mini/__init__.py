"""The bundled suite: small data of our own in the field schema of the public datasets.

A score on it shows that a method works, not how good it is on the public benchmark.
"""
