"""Programs that run inside the sandbox; nothing in the harness calls them in its own process.

They are sent to a bare interpreter as compiled code (see `expbench.sandbox.program`), so they
import next to nothing: every import here is paid for once a sample.
"""
