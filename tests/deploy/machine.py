"""A new Debian machine with systemd, in a container beside this machine: its network, users and files are its own."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.stack import ROOT

PROGRAMS = ("debootstrap", "systemd-nspawn", "slirp4netns")
MIRROR = "http://deb.debian.org/debian"
PACKAGES = "systemd,systemd-sysv,dbus,ca-certificates"
AUTHORITIES = Path("/usr/local/share/ca-certificates")
NAME_SERVER = "nameserver 10.0.2.3\n"  # slirp4netns'
PLAIN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
START_SECONDS = 60
BLOCK_SECONDS = 600


class Machine:
    """A running one. `init` is the number of its first process, as this machine sees it."""

    def __init__(self, init: int) -> None:
        self.init = init

    def run(self, commands: str) -> str:
        """What root's shell prints, both streams. Raises AssertionError if it fails."""
        shell = ["nsenter", "--all", "--target", str(self.init), "--wdns=/root", "bash", "-e", "-u", "-o", "pipefail"]
        done = subprocess.run(
            shell, input=commands, env=PLAIN, text=True, timeout=BLOCK_SECONDS, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        assert done.returncode == 0, f"exit status {done.returncode}\n{commands}\n{done.stdout}"
        return done.stdout


def install(folder: Path, release: str) -> None:
    """Debian's base system, with the source of Parley where the page has it. It needs root."""
    subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, str(folder), MIRROR],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in tracked.splitlines():
        if (ROOT / name).is_file():
            there = folder / "opt/src/parley" / name
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, there)
    if AUTHORITIES.exists():  # whom this machine trusts on the way to Debian and PyPI
        shutil.copytree(AUTHORITIES, folder / AUTHORITIES.relative_to("/"), dirs_exist_ok=True)
    (folder / "etc/resolv.conf").unlink(missing_ok=True)
    (folder / "etc/resolv.conf").write_text(NAME_SERVER)


@contextmanager
def booted(folder: Path) -> Iterator[Machine]:
    """The machine whose disk is `folder`, with a way to the internet and none from there."""
    nspawn = [
        "systemd-nspawn", "--quiet", "--boot", f"--directory={folder}", "--private-network", "--register=no",
        "--keep-unit", "--console=pipe", "--resolv-conf=off", "--timezone=off",
    ]  # fmt: skip
    legacy = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
    with (folder.parent / "console.log").open("wb") as log:
        container = subprocess.Popen(nspawn, env=legacy, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    network = None
    try:
        init = _first_process(container)
        network = subprocess.Popen(
            ["slirp4netns", "--configure", "--disable-host-loopback", str(init), "tap0"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        machine = Machine(init)
        machine.run("until systemctl is-system-running | grep -E 'running|degraded'; do sleep 0.2; done")
        machine.run("until grep -q tap0 /proc/net/route; do sleep 0.1; done; update-ca-certificates")
        yield machine
    finally:
        if network:
            network.terminate()
            network.wait(20)
        container.terminate()  # nspawn tells the machine to halt
        try:
            container.wait(60)
        except subprocess.TimeoutExpired:
            container.kill()
            container.wait(20)


def _first_process(container: subprocess.Popen[bytes]) -> int:
    """The one whose parent is nspawn, once it is systemd."""
    children = Path(f"/proc/{container.pid}/task/{container.pid}/children")
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert container.poll() is None, "systemd-nspawn ended; it needs root."
        for child in children.read_text().split():
            if Path(f"/proc/{child}/comm").read_text().strip() == "systemd":
                return int(child)
        time.sleep(0.1)
    raise AssertionError("The machine did not start.")
