"""A Python client of the client API, generated from the schema in the repository, as its readers are told to do it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.stack import ROOT

SCHEMA = ROOT / "docs" / "client-api" / "openapi.yaml"
PACKAGE = "parley_client"


def generate(folder: Path) -> subprocess.CompletedProcess[str]:
    """Write the package into a folder; a warning of the generator is an exit status other than 0."""
    programs = Path(sys.executable).parent
    command = [programs / "openapi-python-client", "generate", "--path", SCHEMA, "--meta", "none"]
    return subprocess.run(
        [*command, "--output-path", folder / PACKAGE, "--fail-on-warning"],
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"},  # it calls ruff
        capture_output=True, text=True, check=False,
    )  # fmt: skip
