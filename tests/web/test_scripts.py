"""How much of our own JavaScript a page loads: at once, and with what it loads when somebody presses something."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STATIC, TEMPLATES = ROOT / "static", ROOT / "templates"
AT_ONCE, IN_ALL = 125_000, 300_000  # bytes, not compressed
SCRIPT = re.compile(r"""\{% static ['"]([\w/-]+\.js)['"] %\}""")
PARENT_OR_PART = re.compile(r"""\{% (?:extends|include) ['"]([\w/.-]+)['"]""")
IMPORT = re.compile(r"""(?:\bfrom|\bimport)\s*["'](\.{1,2}/[\w./-]+\.js)["']""")
LATER = re.compile(r"""\bimport\(["'](\.{1,2}/[\w./-]+\.js)["']""")


@cache
def scripts_of(template: str) -> frozenset[Path]:
    """Those that a template, what it extends and what it includes name."""
    path = TEMPLATES / template
    if not path.exists():  # the theme's, or another package's
        return frozenset()
    text = path.read_text()
    found = {script for name in SCRIPT.findall(text) if (script := STATIC / name).exists()}
    others = [scripts_of(name) for name in PARENT_OR_PART.findall(text) if name != template]
    return frozenset(found.union(*others))


def with_imports(scripts: frozenset[Path], *imports: re.Pattern[str]) -> set[Path]:
    found: set[Path] = set()
    left = list(scripts)
    while left:
        path = left.pop().resolve()
        if path not in found:
            found.add(path)
            text = path.read_text()
            left += [path.parent / name for pattern in imports for name in pattern.findall(text)]
    return found


def bytes_of(template: str, *imports: re.Pattern[str]) -> int:
    scripts = scripts_of(template)
    if template.startswith("admin/"):  # its classes add some to pages
        scripts |= frozenset((STATIC / "console").glob("*.js"))
    return sum(path.stat().st_size for path in with_imports(scripts, *imports))


PAGES = sorted(str(path.relative_to(TEMPLATES)) for path in TEMPLATES.rglob("*.html"))


@pytest.mark.parametrize("page", [one for one in PAGES if scripts_of(one)])
def test_page_loads_little_of_our_javascript(page):
    assert bytes_of(page, IMPORT) < AT_ONCE
    assert bytes_of(page, IMPORT, LATER) < IN_ALL


def test_imports_are_counted():
    shell = scripts_of("web/shell.html")
    palette, requests = STATIC / "js/shell/palette.js", STATIC / "js/requests.js"
    assert (palette in with_imports(shell, IMPORT), palette in with_imports(shell, IMPORT, LATER)) == (False, True)
    assert requests in with_imports(frozenset([palette]), IMPORT)
