"""What a process of an agent may touch: Linux's Landlock, without a right of its own and without a container.

A confined process reads the system, its programs and its code, and writes its home. It sees no environment, memory or
file of other processes, sends them no signal, and has none of root's capabilities. The network stays open.
https://docs.kernel.org/userspace-api/landlock.html
"""

from __future__ import annotations

import ctypes
import os
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import IntFlag
from pathlib import Path
from typing import NamedTuple

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # system calls, of all architectures
OF_VERSION, BENEATH = 1, 1  # a flag of the first; a type of rule
NO_NEW_PRIVS, DROP_CAPABILITY = 38, 24  # of prctl
SCOPES = 3  # abstract sockets and signals
FULL_VERSION = 6  # of Landlock, with scopes: Linux 6.12

SYSTEM = ("/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/proc", "/sys", "/run/systemd/resolve",
          "/var/lib/ca-certificates")  # fmt: skip
SETTINGS = "/etc"  # of which only what everybody on the machine may read, because services keep secrets there
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class Access(IntFlag):
    """Rights of Landlock: `LANDLOCK_ACCESS_FS_*`."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15

    @classmethod
    def known(cls, version: int) -> Access:
        """Those that this version of Landlock knows."""
        newer = cls(0)
        for since, right in ((2, cls.REFER), (3, cls.TRUNCATE), (5, cls.IOCTL_DEV)):
            newer |= right if version < since else cls(0)
        return ~newer


READ = Access.EXECUTE | Access.READ_FILE | Access.READ_DIR
WRITE = ~(Access.MAKE_CHAR | Access.MAKE_BLOCK | Access.IOCTL_DEV)
LISTEN = Access.MAKE_SOCK | Access.REMOVE_FILE | Access.READ_DIR
USE_DEVICE = Access.READ_FILE | Access.WRITE_FILE | Access.TRUNCATE | Access.IOCTL_DEV
OF_FILES = Access.EXECUTE | USE_DEVICE


class Allowed(NamedTuple):
    """Files and folders beside the system's. A folder stands for all in it.

    Attributes:
        programs: folders like the system's.
        hidden: of what the system's folders and those of programs have, what it may not read.
        listen: folders in which it may have sockets.
    """

    programs: list[Path]
    hidden: list[Path]

    read: list[Path]
    write: list[Path]
    listen: list[Path]


def version() -> int:
    """Of this machine's Landlock; 0 without it."""
    return max(0, _call(CREATE_RULESET, None, 0, OF_VERSION)) if sys.platform == "linux" else 0


def gap() -> str:
    """What people should know if this machine does not confine processes of agents as above; else ""."""
    found = version()
    if not found:
        return "This machine has no Landlock: its agents' processes can read and write all that Parley can."
    if found < FULL_VERSION:
        return "This machine's Landlock is older than Linux 6.12: its agents' processes are confined only in part."
    return ""


def ruleset(allowed: Allowed) -> int | None:
    """A file descriptor for `enter`; None where there is no Landlock. Raises OSError."""
    found = version()
    if not found:
        return None
    handled = Access.known(found)
    scopes = SCOPES if found >= FULL_VERSION else 0
    # landlock_ruleset_attr: files, network, scopes. Older kernels know a shorter one.
    attributes = (ctypes.c_uint64 * 3)(handled, 0, scopes)
    size = 24 if scopes else 8
    rules = _checked(CREATE_RULESET, ctypes.byref(attributes), size, 0)
    try:
        for paths, access in (
            (_system(allowed), READ),
            (allowed.read, READ),
            (allowed.write, WRITE),
            (allowed.listen, LISTEN),
            (map(Path, DEVICES), USE_DEVICE),
        ):
            for path in paths:
                _allow(rules, path, access & handled)
    except BaseException:
        os.close(rules)
        raise
    return rules


def enter(rules: int | None) -> None:
    """Confine this process and those that it starts, for good. Raises OSError."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.geteuid() == 0:
        capability = 0
        while libc.prctl(DROP_CAPABILITY, capability, 0, 0, 0) == 0:
            capability += 1
    if rules is not None:
        _checked(RESTRICT_SELF, rules, 0)


def _system(allowed: Allowed) -> Iterator[Path]:
    for path in (*map(Path, SYSTEM), *allowed.programs):
        yield from _without(path, allowed.hidden)
    with suppress(OSError):
        for one in os.scandir(SETTINGS):
            with suppress(OSError):
                mode = one.stat().st_mode
                needed = 0o5 if stat.S_ISDIR(mode) else 0o4
                if mode & needed == needed:
                    yield from _without(Path(one), allowed.hidden)


def _without(path: Path, hidden: Iterable[Path]) -> Iterator[Path]:
    """The path; or what it has beside what is hidden in it, because a rule cannot take back what another gives."""
    real = path.resolve()
    if any(real.is_relative_to(one) for one in hidden):
        return
    inside = [one for one in hidden if one.is_relative_to(real)]
    if not inside:
        yield real
    else:
        for child in real.iterdir():
            if not child.is_symlink():  # where it leads has a rule of its own, or none
                yield from _without(child, inside)


def _allow(rules: int, path: Path, access: Access) -> None:
    """Nothing for a path that is not there."""
    try:
        at = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(at).st_mode):
            access &= OF_FILES
        # landlock_path_beneath_attr, which is packed: 64 bits of rights and 32 of the file
        attributes = (ctypes.c_uint32 * 3)(access & 0xFFFFFFFF, 0, at)
        _checked(ADD_RULE, rules, BENEATH, ctypes.byref(attributes), 0)
    finally:
        os.close(at)


def _call(number: int, *arguments: object) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    result: int = libc.syscall(ctypes.c_long(number), *wide)
    return result


def _checked(number: int, *arguments: object) -> int:
    result = _call(number, *arguments)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"Landlock refused: {os.strerror(error)}")
    return result
