"""Shared by all tests: no sockets beyond loopback, and the folders that are not always there."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

# Read when huggingface_hub is first imported; the tests bring their own offline settings.
os.environ.pop("HF_HUB_OFFLINE", None)


@pytest.fixture(autouse=True)
def no_outside_network(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Refuse every connection that leaves this machine, unless the test is marked `network`."""
    if request.node.get_closest_marker("network") is None:
        connect = socket.socket.connect

        def local_only(self: socket.socket, address: object) -> None:
            host = address[0] if isinstance(address, tuple) else "local"
            if host not in ("local", "127.0.0.1", "::1", "localhost"):
                raise OSError(f"A test tried to reach {host}; mark it `network` if it must.")
            connect(self, address)  # type: ignore[arg-type]

        monkeypatch.setattr(socket.socket, "connect", local_only)
    yield


def folder_from(variable: str) -> Path:
    """Return a folder named by an environment variable; skip the test where it is not set."""
    value = os.environ.get(variable)
    if not value:
        pytest.skip(f"{variable} is not set")
    return Path(value)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with real rows in the Hub's field names."""
    return folder_from("EXPBENCH_REAL_DATA")


@pytest.fixture(scope="session")
def cases() -> Path:
    """Folder with cases from public bug reports."""
    return folder_from("EXPBENCH_CASES")
