"""Documentation uses the words of the glossary."""

import re

import pytest

from tests.stack import ROOT

GLOSSARY = ROOT / "docs" / "glossary.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "ROADMAP.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path != GLOSSARY),
]
CODE = re.compile(r"^```.*?^```|`[^`\n]*`|\]\([^)]*\)", re.DOTALL | re.MULTILINE)


def avoided_words() -> list[str]:
    table = GLOSSARY.read_text().split("## Words that we do not use")[1]
    return re.findall(r"^\| ([\w -]+) \|", table, re.MULTILINE)[1:]


def found_in(text: str) -> list[str]:
    """The avoided words in a page's prose, ignoring case, also in the plural."""
    words = "|".join(map(re.escape, avoided_words()))
    return re.findall(rf"\b(?:{words})s?\b", CODE.sub("", text), re.IGNORECASE)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_uses_the_words_of_the_glossary(path):
    assert found_in(path.read_text()) == []


def test_avoided_words_are_found_in_prose():
    assert len(avoided_words()) > 10
    assert found_in("Read it Anew.\nTwo wake-ups.") == ["Anew", "wake-ups"]
    assert found_in("`task.cancelled` is true.\n```python\ncolour = 1\n```\n") == []
