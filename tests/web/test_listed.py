"""The files of a session as its panel lists them at first."""

from __future__ import annotations

from typing import Any

import pytest

from apps.web.listed import by_name, kind_of, size_of


def made(task: str, name: str, index: int, *, media_type: str = "text/csv", size: int | None = 1500) -> dict[str, Any]:
    part = {"mediaType": media_type, "size": size, "href": f"/files/{index}", "name": name}
    return {"taskId": task, "artifactId": f"a{index}", "name": name, "firstEvent": index, "parts": [part]}


def test_versions_are_folded_below_the_newest_and_what_was_made_last_comes_first() -> None:
    artifacts = [made("t1", "rows", 1), made("t1", "chart", 2), made("t2", "rows", 8), made("t2", "notes", 9)]
    groups = by_name(artifacts)
    named = [[(newest.name, newest.version), *((one.name, one.version) for one in older)] for newest, older in groups]
    assert named == [[("rows", 2), ("rows", 1)], [("notes", 0)], [("chart", 0)]]
    newest, older = groups[0]
    assert newest.key == "t2/a8"
    assert newest.about == "CSV · 1.5 kB · v2"
    assert older[0].about == "CSV · 1.5 kB · v1"
    assert newest.only_part == artifacts[2]["parts"][0]


def test_what_has_no_name_no_size_or_many_parts_is_listed_too() -> None:
    artifact = made("t", "", 1, media_type="image/x-icon", size=None)
    artifact["parts"] *= 2
    [(newest, _)] = by_name([artifact])
    assert (newest.name, newest.is_picture, newest.only_part) == ("a1", True, None)
    assert newest.about == "ICON · 2 parts"
    assert by_name([]) == []


@pytest.mark.parametrize(
    ("size", "words"), [(999, "999 B"), (1500, "1.5 kB"), (15_000, "15 kB"), (2_500_000, "2.5 MB")]
)
def test_a_size_is_said_as_the_script_says_it(size: int, words: str) -> None:
    assert size_of(size) == words


@pytest.mark.parametrize(
    ("media_type", "word"),
    [("text/csv", "CSV"), ("application/vnd.ms-excel", "MS-EXCEL"), ("image/x-icon", "ICON"), ("odd", "ODD")],
)
def test_a_kind_is_said_as_the_script_says_it(media_type: str, word: str) -> None:
    assert kind_of(media_type) == word
