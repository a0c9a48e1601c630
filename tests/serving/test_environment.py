"""The environment's names: what settings read, `.env.example` explains, and nothing else."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import programs
from tests.stack import ROOT

READ = re.compile(r"""(?:env\.\w+|kept_secret)\(\s*"([A-Z_]+)\"""")


def names_read() -> set[str]:
    sources = [ROOT / "platform/config/settings.py", ROOT / "platform/config/environment.py"]
    return {name for source in sources for name in READ.findall(source.read_text())}


def test_the_example_names_exactly_what_is_read() -> None:
    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)) == names_read()


def test_each_name_of_the_example_is_explained() -> None:
    paragraphs = (ROOT / ".env.example").read_text().strip().split("\n\n")
    assert all(paragraph.startswith("# ") for paragraph in paragraphs)


def settings_with(**environment: str) -> subprocess.CompletedProcess[str]:
    """Load the settings in a process of its own."""
    clean = {key: value for key, value in os.environ.items() if key not in names_read()}
    words = ["-c", "from config import settings; print(settings.ALLOWED_HOSTS)"]
    return programs.run(words, ROOT, {**clean, **environment})


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        (
            {"DATABASE_URL": "mysql://localhost/parley", "SECRET_KEY": "x" * 50, "MASTER_KEY": "x" * 43},
            "DATABASE_URL must begin with sqlite:// or postgres://",
        ),
        ({"CHANNEL_LAYER_URL": "amqp://localhost"}, "CHANNEL_LAYER_URL must be memory:// or begin with redis://"),
        ({"DATABASE_URL": "postgres://127.0.0.1/parley"}, "SECRET_KEY is not set"),
        ({"DATABASE_URL": "postgres://127.0.0.1/parley", "SECRET_KEY": "x" * 50}, "MASTER_KEY is not set"),
        ({"PORT": "http"}, "PORT"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_at_once_by_name(
    environment: dict[str, str], sentence: str, tmp_path: Path
) -> None:
    refused = settings_with(DATA_DIR=str(tmp_path), **environment)
    assert refused.returncode == 1
    assert sentence in refused.stderr


def test_the_public_address_is_served(tmp_path: Path) -> None:
    loaded = settings_with(DATA_DIR=str(tmp_path), PUBLIC_BASE_URL="https://parley.example.org/")
    assert "parley.example.org" in loaded.stdout
