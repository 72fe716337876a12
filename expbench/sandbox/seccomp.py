"""The system-call filter of the sandbox, as classic BPF that bubblewrap installs.

Namespaces already hide files, processes and networks; the filter takes away kernel surface that no
solution needs: new namespaces (whose tmpfs would escape the size limit), tracing, memory outside
the resource limits (memfd, System V), BPF, io_uring, key rings. The system-call numbers are those
of the kernel's `syscall_64.tbl` and `asm-generic/unistd.h`.
"""

import errno
import platform
import struct

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, -CGROUP, -UTS, -IPC, -USER, -PID, -NET and -TIME."""
_X32 = 0x40000000

_SAME_EVERYWHERE = (*range(425, 434), 435, 438, 442, 447)
"""io_uring_*, new mount API, clone3, pidfd_getfd, mount_setattr, memfd_secret."""
_CLONE3 = 435

_ARCHITECTURES: dict[str, tuple[int, int, tuple[int, ...]]] = {
    # machine: (AUDIT_ARCH, clone, refused: ptrace, process_vm_readv, process_vm_writev, unshare,
    # setns, mount, umount2, pivot_root, chroot, add_key, request_key, keyctl, bpf,
    # perf_event_open, userfaultfd, memfd_create, shmget, shmat, msgget, mq_open,
    # name_to_handle_at, open_by_handle_at, kcmp)
    "x86_64": (
        0xC000003E,
        56,
        (
            *(101, 310, 311, 272, 308, 165, 166, 155, 161, 248, 249, 250, 321, 298, 323, 319),
            *(29, 30, 68, 240, 303, 304, 312),
        ),
    ),
    "aarch64": (
        0xC00000B7,
        220,
        (
            *(117, 270, 271, 97, 268, 40, 39, 41, 51, 217, 218, 219, 280, 241, 282, 279),
            *(194, 196, 186, 180, 264, 265, 272),
        ),
    ),
}


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def program(machine: str = platform.machine()) -> bytes:
    """Assemble the filter; empty for a machine whose call numbers are not known here.

    >>> len(program("x86_64")) % 8, program("pdp11")
    (0, b'')
    """
    if machine not in _ARCHITECTURES:
        return b""
    architecture, clone, refused = _ARCHITECTURES[machine]
    steps = [_step(_LOAD, 4), _step(_EQUAL, architecture, 1), _step(_RETURN, _KILL)]
    steps += [_step(_LOAD, 0)]
    steps += [_step(_AT_LEAST, _X32, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM)]
    for number in (*refused, *_SAME_EVERYWHERE):
        # Without clone3 the C library falls back to clone, whose flags a filter can read.
        answer = errno.ENOSYS if number == _CLONE3 else errno.EPERM
        steps += [_step(_EQUAL, number, 0, 1), _step(_RETURN, _ERRNO | answer)]
    steps += [_step(_EQUAL, clone, 0, 3), _step(_LOAD, 16)]
    steps += [_step(_ANY_BIT, _NEW_NAMESPACES, 0, 1), _step(_RETURN, _ERRNO | errno.EPERM)]
    return b"".join([*steps, _step(_RETURN, _ALLOW)])
