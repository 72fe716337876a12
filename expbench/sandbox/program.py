"""How a program gets into the sandbox: as compiled code over its channel, never as a file.

The interpreter inside starts with nothing but `BOOT`; it reads its modules from the channel that it
was given, so no folder of this project has to be visible to the tested code.
"""

import functools
import marshal
import os
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import Any

BOOT = """\
import builtins, marshal, posix, sys
channel = int(sys.argv[1])
def read(size):
    parts = []
    while size:
        part = posix.read(channel, size)
        if not part:
            posix._exit(1)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
modules, settings = marshal.loads(read(int.from_bytes(read(8), "big")))
for name, code in modules:
    module = sys.modules[name] = type(sys)(name)
    module.__path__ = []
    # A copy, so that builtins patched by the tested code leave this program alone.
    module.__builtins__ = dict(vars(builtins))
    if code is not None:
        exec(code, vars(module))
module.serve(channel, settings)
"""


@functools.cache
def interpreter() -> str:
    """Path of the real interpreter behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", "") or sys.executable)


@functools.cache
def numpy_folders() -> tuple[str, ...]:
    """Folders that `import numpy` needs: the package and its bundled libraries."""
    spec = find_spec("numpy")
    if spec is None or spec.origin is None:
        return ()
    package = Path(spec.origin).parent
    beside = package.with_name("numpy.libs")
    return tuple(str(path) for path in (package, beside) if path.is_dir())


@functools.cache
def library_folders() -> tuple[str, ...]:
    """Folders with the standard library and the shared libraries that it links."""
    base = sys.base_prefix
    folders = [f"{base}/lib", f"{base}/lib64", sysconfig.get_path("stdlib", vars={"base": base})]
    folders += ["/lib", "/lib64", "/usr/lib", "/usr/lib64"]
    folders += ["/nix/store"] if interpreter().startswith("/nix/") else []
    found: list[str] = []
    for folder in sorted({os.path.realpath(folder) for folder in folders}, key=len):
        if os.path.isdir(folder) and not any(folder.startswith(f"{f}/") for f in found):
            found.append(folder)
    return tuple(found)


@functools.cache
def installed_packages() -> tuple[str, ...]:
    """Folders of this interpreter's packages inside `library_folders`, to be hidden."""
    libraries = [Path(sys.base_prefix, name) for name in ("lib", "lib64")]
    found = {
        os.path.realpath(path)
        for folder in libraries
        for name in ("site-packages", "dist-packages")
        for path in folder.glob(f"python3*/{name}")
    }
    return tuple(sorted(found))


@functools.cache
def _modules(last: str) -> list[tuple[str, Any]]:
    names = ["expbench", "expbench.sandbox", "expbench.sandbox.inside"]
    modules: list[tuple[str, Any]] = [(name, None) for name in names]
    for name in ("wire", "confine", last):
        source = Path(__file__).with_name("inside") / f"{name}.py"
        code = compile(source.read_text("utf-8"), f"{name}.py", "exec", dont_inherit=True)
        modules.append((f"{names[-1]}.{name}", code))
    return modules


def message(name: str, settings: dict[str, Any]) -> bytes:
    """What `BOOT` reads to become `expbench.sandbox.inside.<name>`."""
    data = marshal.dumps((_modules(name), settings))
    return len(data).to_bytes(8, "big") + data
