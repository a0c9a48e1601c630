"""LangGraph's own SDK, in an environment of its own, at a Parley of real processes.

It cannot be installed beside Parley: it brings LangChain. Its tests are `environments/sdk.py`.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.adapters.test_environments import TRUSTED, UV
from tests.stack import Stack

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parent / "environments" / "sdk.py"


@pytest.fixture(scope="module")
def parley():
    stack = Stack()
    try:
        stack.start()
        yield stack
    finally:
        stack.close()


@pytest.mark.timeout(600)  # it installs packages
def test_sdk_passes_its_tests(tmp_path, parley):
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", tmp_path / "venv"], check=True)
    installed = [
        UV,
        "pip",
        "install",
        "--quiet",
        "--python",
        python,
        "langgraph-sdk>=0.4,<0.5",
        "pytest",
        "pytest-asyncio",
    ]
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"}
    subprocess.run(installed, env=environment | TRUSTED, check=True)
    shutil.copy(TESTS, tmp_path / "test_sdk.py")
    asked = ["-q", "-c", "/dev/null", "--rootdir", tmp_path, "-o", "asyncio_mode=auto", tmp_path / "test_sdk.py"]
    reached = environment | {"PARLEY_URL": f"{parley.url}/langgraph", "PARLEY_KEY": parley.demo_key}
    done = subprocess.run(
        [python, "-m", "pytest", *asked], cwd=tmp_path, env=reached, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
