"""The methods that ship with ExpBench, one folder each."""

if __name__ != "expbench_methods":
    raise ImportError(
        f"Imported as {__name__!r}: put the folder `methods` on the path and import "
        "`expbench_methods`, or a second copy of every method would be loaded."
    )
