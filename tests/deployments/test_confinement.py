"""What an agent's process may touch: its own, and nothing of Parley's or of other agents."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from apps.deployments import confinement
from tests.deployments.keeping import ANSWER, TRY, call

ROOT = Path(confinement.__file__).parents[2]

pytestmark = pytest.mark.skipif(confinement.gap() != "", reason="needs Landlock with scopes: Linux 6.12")


@pytest.fixture
def tries(kept):
    """What becomes of expressions in an agent."""

    def attempt(*expressions: str) -> str:
        acts = ", ".join(f"lambda: {one}" for one in expressions)
        return call(kept.ask("curious", f"{TRY}\ntell({acts})\n")["socket"])

    return attempt


def test_home_is_writable(tries):
    assert tries("open(os.environ['HOME'] + '/note', 'w').write('abc')") == "did 3"


def test_code_is_only_readable(tries):
    assert tries("len(open('server.py').read()) > 0", "open('server.py', 'w')") == "did True PermissionError"


def test_setup_writes_code_and_home(kept):
    program = "import os; open('made', 'w'); open(os.environ['HOME'] + '/made', 'w')"
    assert "socket" in kept.ask("curious", ANSWER, setup=[[sys.executable, "-S", "-c", program]])


def test_setup_writes_nothing_else(kept):
    program = f"open('{kept.data}/made', 'w')"
    said = kept.ask("curious", ANSWER, setup=[[sys.executable, "-S", "-c", program]])
    assert said["error"].startswith("Its environment cannot be made: PermissionError")


def test_own_log_cannot_be_replaced(tries):
    assert tries("os.remove('../log')", "os.symlink('/etc/passwd', '../log.old')") == "PermissionError PermissionError"


def test_system_runs(tries):
    assert tries("os.system('ls /usr > $TMPDIR/list')", "open('/dev/null', 'w').write('x')") == "did 0 did 1"


def test_data_folder_is_hidden(tries, kept):
    (kept.data / "secret_key").write_text("secret")
    assert tries(f"open('{kept.data}/secret_key').read()", f"os.listdir('{kept.data}')") == (
        "PermissionError PermissionError"
    )


def test_data_folder_inside_the_system_is_hidden(data):
    data.mkdir()
    (data / "secret_key").write_text("secret")
    (data.parent / "public").write_text("public")
    program = f"""
from pathlib import Path
from apps.deployments import confinement
confinement.SYSTEM += ("{data.parent}",)
confinement.enter(confinement.ruleset(confinement.Allowed([], [Path("{data}")], [], [], [])))
print(open("{data.parent}/public").read(), flush=True)
open("{data}/secret_key")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "public\n"
    assert "PermissionError" in done.stderr


def test_secrets_in_etc_are_hidden(tries):
    assert tries("open('/etc/shadow').read()", "len(open('/etc/hosts').read()) > 0") == "PermissionError did True"


def test_other_agents_are_hidden(tries, kept):
    kept.ask("well", ANSWER)
    assert tries("open('../../well/code/server.py').read()", f"os.listdir('{kept.folder}')") == (
        "PermissionError PermissionError"
    )


def test_sockets_of_others_have_secret_paths(tries, kept):
    """/proc/net/unix has the paths at which sockets were made: those of the keeper and of agents have moved on."""
    kept.ask("well", ANSWER)
    known = "[one.split()[-1] for one in open('/proc/net/unix') if '/' in one]"
    hits = (
        f"[one for one in {known} if one.startswith('{kept.folder}') and 'curious' not in one and os.path.exists(one)]"
    )
    assert tries(hits) == "did []"


def test_environment_of_parley_is_hidden(tries):
    assert tries(f"open('/proc/{os.getpid()}/environ').read()", "len(open('/proc/self/environ').read()) > 0") == (
        "PermissionError did True"
    )


def test_parley_gets_no_signals(tries, kept):
    assert tries(f"os.kill({os.getpid()}, 0)", f"os.kill({kept.pid}, 9)") == "PermissionError PermissionError"


def test_abstract_sockets_are_out_of_reach(tries):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"\0parley-test-{os.getpid()}")
        server.listen()
        assert tries(f"socket.socket(socket.AF_UNIX).connect('\\0parley-test-{os.getpid()}')") == "PermissionError"


def test_network_is_open(tries):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        thread = threading.Thread(target=server.accept)
        thread.start()
        assert tries(f"socket.create_connection({address}).getpeername()") == f"did {address}"
        thread.join()


def test_capabilities_are_none(tries):
    assert "CapEff:\t0000000000000000" in tries("open('/proc/self/status').read()")
