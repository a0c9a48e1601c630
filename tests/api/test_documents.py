"""The schema of the client API and its page: for anybody, and without anything from elsewhere."""

import re

from django.test import Client

from apps.api.urls import PARTS

INLINE = re.compile(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=")


async def test_the_schema_is_for_anybody_and_names_every_address_once(transactional_db, anybody):
    answer = await anybody.get("/schema")
    assert answer.status == 200
    paths = answer.body["paths"]
    assert not [path for path in paths if path.endswith("/")]
    shown = {path for path in paths if path not in ("/api/v1/schema", "/api/v1/docs")}
    addresses = {re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(one.pattern)) for part in PARTS for one in part}
    assert {path.removeprefix("/api/v1/") for path in shown} == addresses - {"schema", "docs"}
    assert set(answer.body["components"].get("securitySchemes", {})) <= {"key", "cookie"}


def test_the_page_loads_only_our_own_files_under_the_policy_of_all_pages(db):
    answer = Client().get("/api/v1/docs")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert not INLINE.search(page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)
    assert "unsafe" not in answer["Content-Security-Policy"]
    assert 'data-schema="/api/v1/schema"' in page
