"""Exceptions of ExpBench: a user's mistake is an `ExpBenchError`; anything else is a bug.

The command line prints an `ExpBenchError` as one or two sentences and exits with 2. Every class
also inherits the built-in it refines, so that library users can catch either.
"""

import difflib
from collections.abc import Iterable


class ExpBenchError(Exception):
    """Root of all errors that the user can mend; the message says what to do."""


class UnknownName(ExpBenchError, LookupError):
    """A task, method, model, preset or run that does not exist."""

    @classmethod
    def among(cls, what: str, given: str, known: Iterable[str]) -> "UnknownName":
        """Build the message with the nearest known name.

        >>> str(UnknownName.among("method", "direkt", ["direct", "random"]))
        "No method named 'direkt'. Did you mean 'direct'? Known: direct, random."
        """
        names = sorted(known)
        near = difflib.get_close_matches(given, names, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return cls(f"No {what} named {given!r}.{hint} Known: {', '.join(names) or 'none'}.")


class ConfigError(ExpBenchError, ValueError):
    """A setting with a wrong type, range or combination."""


class DataError(ExpBenchError, ValueError):
    """Rows that cannot be used: the message names file, line and remedy."""


class MissingData(DataError):
    """A task whose rows are not there: not downloaded, gated, or absent from the given folder."""


class GradingError(ExpBenchError, RuntimeError):
    """A grader that could not decide; recorded as an error, never as a zero."""


class SandboxError(ExpBenchError, RuntimeError):
    """The sandbox cannot be started here; untrusted code was not run."""


class RecordError(ExpBenchError, ValueError):
    """A run folder that cannot be read, or is in use by another process."""


class PluginError(ExpBenchError, ImportError):
    """A method or task module that cannot be imported or does not keep the protocol."""
