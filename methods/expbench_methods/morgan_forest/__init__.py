"""Yes or No by a random forest on Morgan fingerprints: what a molecule's fragments alone are worth.

Breiman, "Random forests", Machine Learning 45, 2001, as scikit-learn has it; Rogers and Hahn,
"Extended-connectivity fingerprints", J. Chem. Inf. Model. 50, 2010, as RDKit has them. Departures:
scikit-learn's trees vote with their leaves' class shares instead of one class each; classes are not
weighted, and nothing is tuned to a property.
"""

from expbench_methods.morgan_forest.method import MorganForest

METHOD = MorganForest
"""Method `morgan_forest`."""
