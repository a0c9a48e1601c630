"""Adapters of frameworks that cannot be installed beside Parley: each in an environment of its own.

Their tests are `environments/<name>.py`, which import agentkit and the framework alone.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.stack import ROOT

pytestmark = pytest.mark.slow
TESTS = Path(__file__).parent / "environments"
TRUSTED = {"UV_NATIVE_TLS": "1", "UV_SYSTEM_CERTS": "1"}  # of the system, which the other tests do not trust
UV = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")

PACKAGES = {
    "langgraph": "langgraph",
    "openai_agents": "openai-agents",
    "crewai": "crewai",
    "google_adk": "google-adk",
    "strands": "strands-agents",
    "llama_index": "llama-index-workflows",
    "haystack": "haystack-ai",
}


@pytest.mark.timeout(600)  # it installs packages
@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_adapter_passes_its_tests_with_the_package(tmp_path, name, package):
    python = tmp_path / "venv" / "bin" / "python"
    subprocess.run([UV, "venv", "--quiet", tmp_path / "venv"], check=True)
    agentkit = f"{ROOT / 'platform' / 'agentkit'}[serve]"
    installed = [UV, "pip", "install", "--quiet", "--python", python, agentkit, package, "pytest", "pytest-asyncio"]
    environment = {name: value for name, value in os.environ.items() if name != "SSL_CERT_DIR"} | TRUSTED
    subprocess.run(installed, env=environment, check=True)
    shutil.copy(TESTS / f"{name}.py", tmp_path / f"test_{name}.py")
    asked = ["-q", "-c", "/dev/null", "--rootdir", tmp_path, "-o", "asyncio_mode=auto", tmp_path / f"test_{name}.py"]
    done = subprocess.run([python, "-m", "pytest", *asked], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
