"""No page sends much: our scripts by themselves, and all that opens a session with a long answer.

Scripts are those that a template names, and those that these import at once.
`tests/browser/test_budget.py` measures what a browser loads, also later and for actions.
"""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import django_htmx
from django.test import Client

from apps.accounts.models import User
from apps.agents.models import Agent
from tests.web import telling

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS, TEMPLATES = ROOT / "static/js", ROOT / "templates"
MOST_COMPRESSED_BYTES = 60_000  # of our scripts, for a page
MOST_BYTES_TO_OPEN = 150_000  # compressed, for a session with an answer of 200 kB
NAMED = re.compile(r"""(?:src|href)="\{% static '(js/[\w/.-]+)' %\}\"""")
EXTENDED = re.compile(r'\{% extends "([\w/.-]+)" %\}')
IMPORTED = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)";', re.MULTILINE)
ASSET = re.compile(r'(?:href|src)="/static/((?:css|js)/[^"]+)"')


@cache
def named(template: str) -> frozenset[Path]:
    """The scripts that a template and those that it extends name."""
    text = (TEMPLATES / template).read_text()
    above = [script for one in EXTENDED.findall(text) for script in named(one)]
    return frozenset([*(ROOT / "static" / name for name in NAMED.findall(text)), *above])


def imported(scripts: Iterable[Path]) -> set[Path]:
    """These and all that they import at once; not what they import later, by `import()`."""
    found: set[Path] = set()
    due = [script.resolve() for script in scripts]
    while due:
        if (script := due.pop()) not in found:
            found.add(script)
            due += [(script.parent / name).resolve() for name in IMPORTED.findall(script.read_text())]
    return found


def compressed(files: Iterable[Path]) -> int:
    return sum(len(gzip.compress(one.read_bytes())) for one in files)


def test_each_page_has_60_kilobytes_of_our_scripts() -> None:
    pages = {path.name: named(f"web/{path.name}") for path in (TEMPLATES / "web").glob("[!_]*.html")}
    sizes = {name: compressed(imported(scripts)) for name, scripts in pages.items() if scripts}
    assert sizes.keys() >= {"home.html", "session.html", "inbox.html", "agent.html", "task.html", "plan_run.html"}
    assert SCRIPTS / "session/reducer.js" in imported(pages["session.html"]), "imports of imports count"
    assert {name: size for name, size in sizes.items() if not 0 < size <= MOST_COMPRESSED_BYTES} == {}


def prose(length: int) -> str:
    """Paragraphs of common and rare words, which compress about as well as English."""
    chosen = random.Random(4)
    common = ["the", "of", "and", "to", "in", "is", "that", "for", "it", "with", "river", "water", "time", "work"]
    rare = ["".join(chosen.choices("etaoinshrdlcumwfgypb", k=chosen.randint(4, 9))) for _ in range(2500)]
    paragraphs: list[str] = []
    while sum(map(len, paragraphs)) < length:
        words = [chosen.choice(chosen.choice([common, common, rare])) for _ in range(70)]
        paragraphs.append(f"**{words[0].title()}**: {' '.join(words)}.\n\n")
    return "".join(paragraphs)[:length]


def test_a_long_answer_is_sent_once_and_compressed(ada_browser: Client, ada: User, echo: Agent) -> None:
    words = prose(200_000)
    receipt = telling.streamed(ada, echo, words)
    response = ada_browser.get(f"/sessions/{receipt.context}", headers={"accept-encoding": "gzip"})
    assert response["Content-Encoding"] == "gzip"
    html = gzip.decompress(response.content).decode()
    assert html.count(words[150_000:150_060]) == 1
    assets = {ROOT / "static" / name for name in ASSET.findall(html)}
    htmx = Path(django_htmx.__file__).parent / "static/django_htmx"
    others = [htmx / "htmx-2.min.js", htmx / "django-htmx.js"]
    loaded = [*imported(one for one in assets if one.suffix == ".js"), *(one for one in assets if one.suffix == ".css")]
    assert all(one.is_file() for one in assets)
    whole = len(response.content) + compressed([*loaded, *others, ROOT / "static/icons.svg"])
    assert whole < MOST_BYTES_TO_OPEN
