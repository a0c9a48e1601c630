"""The client API's schema in the repository is that of the code, and clients can be made from it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml
from django.core.management import call_command

from tests.generated_client import PACKAGE, SCHEMA, generate


def test_the_schema_in_the_repository_is_current() -> None:
    made = io.StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=made)
    assert SCHEMA.read_text() == made.getvalue(), "The client API has changed: make schema"


def test_the_schema_names_no_host() -> None:
    text = SCHEMA.read_text()
    assert "servers" not in yaml.safe_load(text)
    assert "://" not in text


def test_every_operation_says_what_it_is_and_how_it_refuses() -> None:
    paths = yaml.safe_load(SCHEMA.read_text())["paths"]
    operations = [one for verbs in paths.values() for one in verbs.values()]
    names = [one["operationId"] for one in operations]
    assert sorted(set(names)) == sorted(names)
    for one in operations:
        assert one["summary"], one["operationId"]
        assert "429" in one["responses"], one["operationId"]
        assert "application/problem+json" in one["responses"]["429"]["content"], one["operationId"]


@pytest.mark.timeout(300)
def test_a_client_is_generated_without_a_warning(tmp_path: Path) -> None:
    done = generate(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    assert (tmp_path / PACKAGE / "api" / "sessions" / "sessions_create.py").exists()
