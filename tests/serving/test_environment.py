"""Settings and `.env.example` have the same names."""

from __future__ import annotations

import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from tests.stack import ROOT

READ = re.compile(r"""(?:env\.\w+|secret)\(\s*"([A-Z_]+)\"""")
SETTINGS = ROOT / "platform/config/settings.py"
POSTGRES = {"DATABASE_URL": "postgres://127.0.0.1/parley"}


def names_read() -> set[str]:
    sources = [SETTINGS, ROOT / "platform/config/environment.py"]
    return {name for source in sources for name in READ.findall(source.read_text())}


def test_the_example_names_exactly_what_is_read_and_explains_it() -> None:
    example = (ROOT / ".env.example").read_text()
    assert set(re.findall(r"^#?([A-Z_]+)=", example, re.MULTILINE)) == names_read()
    assert all(paragraph.startswith("# ") for paragraph in example.strip().split("\n\n"))


@pytest.fixture
def settings_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    for name in names_read() & os.environ.keys():
        monkeypatch.delenv(name)
    monkeypatch.setenv("DATA_DIR", str(tmp_path))

    def read(**environment: str) -> dict[str, Any]:
        with monkeypatch.context() as patch:
            for name, value in environment.items():
                patch.setenv(name, value)
            return runpy.run_path(str(SETTINGS))

    return read


def test_a_setting_that_cannot_be_is_refused_at_once_by_name(settings_with: Any) -> None:
    key = {"SECRET_KEY": "x" * 50}
    refusals: list[tuple[dict[str, str], str]] = [
        (key | {"DATABASE_URL": "mysql://h/p", "MASTER_KEY": "x" * 43}, "DATABASE_URL must begin with sqlite:// or"),
        ({"CHANNEL_LAYER_URL": "amqp://localhost"}, "CHANNEL_LAYER_URL must be memory:// or begin with redis://"),
        (POSTGRES, "SECRET_KEY is not set"),
        (POSTGRES | key, "MASTER_KEY is not set"),
    ]
    for environment, sentence in refusals:
        with pytest.raises(ImproperlyConfigured, match=sentence):
            settings_with(**environment)


def test_the_public_address_is_served(settings_with: Any) -> None:
    assert "parley.example.org" in settings_with(PUBLIC_BASE_URL="https://parley.example.org/")["ALLOWED_HOSTS"]


def test_an_embedded_installation_makes_a_master_key_for_itself_alone_and_keeps_it(
    settings_with: Any, tmp_path: Path
) -> None:
    made = settings_with()["MASTER_KEY"]
    assert settings_with()["MASTER_KEY"] == made
    assert len(made) == 43
    assert (tmp_path / "master-key").stat().st_mode & 0o777 == 0o600
