"""The committed schema is current and public, and generates clients."""

import io
import re

import pytest
import yaml
from django.core.management import call_command
from django.test import Client

from apps.accounts.resources import faces
from tests.generated_client import PACKAGE, SCHEMA, generate

INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=")


def test_schema_in_the_repository_is_current():
    made = io.StringIO()
    call_command("spectacular", validate=True, fail_on_warn=True, stdout=made)
    text = SCHEMA.read_text()
    assert text == made.getvalue(), "The client API has changed: make schema"
    assert "servers" not in yaml.load(text, yaml.CSafeLoader)
    assert "://" not in text


async def test_schema_names_every_address_and_its_refusals(transactional_db, anybody):
    answer = await anybody.get("/schema")
    paths = answer.body["paths"]
    assert (answer.status, [path for path in paths if path.endswith("/")]) == (200, [])
    shown = {path.removeprefix("/api/v1/") for path in paths}
    addresses = {
        re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(one.pattern)) for face in faces("api") for one in face.urlpatterns
    }
    assert shown - {"schema", "docs"} == addresses - {"schema", "docs"}
    operations = [one for verbs in paths.values() for one in verbs.values()]
    assert len({one["operationId"] for one in operations}) == len(operations)
    for one in operations:
        assert "application/problem+json" in one["responses"]["429"]["content"], one["operationId"]


def test_page_of_the_schema_loads_own_files_only(db):
    answer = Client().get("/api/v1/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert not INLINE.search(page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert 'data-schema="/api/v1/schema"' in page


@pytest.mark.slow("a generator and what it makes take seconds")
def test_a_client_is_generated_without_a_warning(tmp_path):
    done = generate(tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Warning" not in done.stdout + done.stderr
    assert (tmp_path / PACKAGE / "api" / "sessions" / "sessions_create.py").exists()
