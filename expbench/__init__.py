"""ExpBench: does learning from experience help, on which tasks, at what cost?"""

__version__ = "0.1.0"
