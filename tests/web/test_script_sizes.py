"""No page loads much JavaScript of ours: by the modules that its template names and that those import.

`tests/browser/test_budget.py` measures what a browser loads, also later and for actions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS, TEMPLATES = ROOT / "static/js", ROOT / "templates"
MOST_BYTES = 90_000
NAMED = re.compile(r"""(?:src|href)="\{% static '(js/[\w/.-]+)' %\}\"""")
EXTENDED = re.compile(r'\{% extends "([\w/.-]+)" %\}')
IMPORTED = re.compile(r'^(?:import|export)\b[^;"]*"(\.[^"]+)";', re.MULTILINE)


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


def test_each_page_loads_at_most_90_kilobytes_of_our_scripts() -> None:
    pages = {path.name: named(f"web/{path.name}") for path in (TEMPLATES / "web").glob("[!_]*.html")}
    sizes = {name: sum(one.stat().st_size for one in imported(scripts)) for name, scripts in pages.items() if scripts}
    assert sizes.keys() >= {"home.html", "session.html", "inbox.html", "agent.html", "task.html", "plan_run.html"}
    assert SCRIPTS / "session/reducer.js" in imported(pages["session.html"]), "imports of imports count"
    assert {name: size for name, size in sizes.items() if not 0 < size <= MOST_BYTES} == {}
