"""A Python client, generated from the committed schema as the documentation says."""

import os
import subprocess
import sys
from pathlib import Path

from tests.stack import ROOT

SCHEMA = ROOT / "docs" / "client-api" / "openapi.yaml"
PACKAGE = "parley_client"


def generate(folder: Path) -> subprocess.CompletedProcess[str]:
    """Write the package; generator warnings fail."""
    programs = Path(sys.executable).parent
    command = [programs / "openapi-python-client", "generate", "--path", SCHEMA, "--meta", "none"]
    command += ["--config", SCHEMA.with_name("generator.yaml"), "--fail-on-warning"]
    return subprocess.run(
        [*command, "--output-path", folder / PACKAGE],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},  # it calls ruff
        capture_output=True, text=True, check=False,
    )  # fmt: skip
