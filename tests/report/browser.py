"""A headless Chromium driven over its DevTools pipe: JSON messages that end in a zero byte."""

import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """Find a browser on PATH."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One tab. Use it as a context manager."""

    def __init__(self, program: str, profile: Path) -> None:
        read_end, self._write = os.pipe()
        self._read, write_end = os.pipe()
        switches = "--headless --no-sandbox --disable-gpu --no-first-run --remote-debugging-pipe"
        wiring = f'exec 3<&{read_end} 4>&{write_end}; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", wiring, program, *switches.split(), f"--user-data-dir={profile}"],
            pass_fds=(read_end, write_end),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read_end)
        os.close(write_end)
        self._rest = b""
        self._count = 0
        self._session: str | None = None
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *exception: object) -> None:
        self._session = None
        self.send("Browser.close")
        self._process.wait(20)
        os.close(self._read)
        os.close(self._write)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a DevTools method and wait for its result."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self.events.append(answer)

    def _receive(self, seconds: float = 30.0) -> dict[str, Any]:
        end = time.monotonic() + seconds
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"the browser said nothing for {seconds} seconds"
            piece = os.read(self._read, 1 << 16)
            assert piece, "the browser ended"
            self._rest += piece
        line, self._rest = self._rest.split(b"\0", 1)
        return dict(json.loads(line))

    def open(self, path: Path, fragment: str = "") -> None:
        """Load a page and wait for its load event."""
        for url in ("about:blank", path.as_uri() + fragment):
            seen = len(self.events)
            self.send("Page.navigate", url=url)
            while not any(e.get("method") == "Page.loadEventFired" for e in self.events[seen:]):
                self.events.append(self._receive())

    def value(self, expression: str) -> Any:
        """Evaluate JavaScript in the page."""
        done = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def key(self, name: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if name == "Enter" and kind == "keyDown" else {}
            self.send("Input.dispatchKeyEvent", type=kind, key=name, **text)

    def point(self, selector: str, *, click: bool = False) -> None:
        """Move the mouse over the middle of an element, and click it."""
        box = self.value(
            f"(() => {{ const n = document.querySelector({json.dumps(selector)}); "
            "n.scrollIntoView({block: 'nearest'}); const b = n.getClientRects()[0]; "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        place = {"x": box[0], "y": box[1]}
        self.send("Input.dispatchMouseEvent", type="mouseMoved", **place)
        if click:
            for kind in ("mousePressed", "mouseReleased"):
                self.send(
                    "Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **place
                )

    def complaints(self) -> list[dict[str, Any]]:
        """Return errors and warnings of the page so far: exceptions, console, policy, network."""
        names = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [e for e in self.events if e.get("method") in names]

    def requested(self) -> list[str]:
        """Return the addresses the page asked for."""
        return [
            e["params"]["request"]["url"]
            for e in self.events
            if e.get("method") == "Network.requestWillBeSent"
        ]
