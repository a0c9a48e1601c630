"""docs/running/one-machine.md, block by block as root on a new Debian with systemd."""

import os
import shutil

import pytest

from tests.deploy import machine
from tests.docs.pages import page_at
from tests.stack import ROOT

pytestmark = pytest.mark.slow("it installs a Debian: as root, with debootstrap, systemd-container and slirp4netns")

PAGE = ROOT / "docs/running/one-machine.md"


@pytest.fixture
def debian(tmp_path):
    """The release that the page names first."""
    if os.getuid() or not all(map(shutil.which, machine.PROGRAMS)):
        pytest.skip(f"it needs root and {', '.join(machine.PROGRAMS)}")
    machine.install(tmp_path / "disk", "trixie")
    with machine.booted(tmp_path / "disk") as booted:
        yield booted
    shutil.rmtree(tmp_path / "disk")


@pytest.mark.timeout(1800)
def test_newcomers_install_parley_by_the_page(debian):
    printed = "".join(debian.run(block.code) for block in page_at(PAGE).blocks if not block.why_not)
    assert '"state":"TASK_STATE_COMPLETED"' in printed
    examined = [line for line in printed.splitlines() if line.startswith(("ok  ", "warning  ", "problem  "))]
    assert len(examined) > 30
    assert [line for line in examined if not line.startswith("ok")] == []
