"""What the verbs of the command line do, one module a verb; `expbench.cli` parses the arguments."""
