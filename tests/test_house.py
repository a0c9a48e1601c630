"""What must stay true of the house itself."""

import importlib
import pkgutil
import platform
import re
import tomllib
from pathlib import Path

import pytest

from tests.tiers import TIERS

ROOT = Path(__file__).resolve().parents[1]


def test_the_platform_folder_never_becomes_a_package():
    assert not (ROOT / "platform" / "__init__.py").exists(), "it would shadow the standard library's platform"
    assert platform.python_version()


def test_locks_carry_hashes_and_name_no_host():
    for name in ("requirements.lock", "requirements-dev.lock", "deploy/tools/requirements.txt"):
        text = (ROOT / name).read_text()
        pinned = re.findall(r"^[\w.\[\],-]+==", text, re.MULTILINE)
        assert len(pinned) > 30
        assert text.count("--hash=sha256:") >= len(pinned)
        assert not re.search(r"https?://|--index-url|--find-links", text)


def test_every_folder_of_tests_is_a_package():
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_package_has_more_than_fifteen_modules():
    folders = {path.parent for part in ("apps", "platform") for path in (ROOT / part).rglob("*.py")}
    modules = {folder: [path for path in folder.glob("*.py") if path.name != "__init__.py"] for folder in folders}
    assert {folder: len(found) for folder, found in modules.items() if len(found) > 15} == {}


def test_no_module_is_named_after_its_shape():
    shapes = {"services.py", "selectors.py", "utils.py", "helpers.py", "common.py", "misc.py"}
    parts = ("apps", "platform", "tests", "benchmarks", "faults", "interoperability")
    modules = [path for part in parts for path in (ROOT / part).rglob("*.py")]
    assert [path for path in modules if path.name in shapes] == []


@pytest.mark.parametrize("name", ["benchmarks", "faults", "interoperability"])
def test_each_module_of_a_tool_imports(name):
    for module in pkgutil.iter_modules([str(ROOT / name)], f"{name}."):
        if module.name != "faults.settings":  # for processes of its own
            importlib.import_module(module.name)


def test_each_promise_has_its_named_test():
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "tests" / "README.md").read_text())
    gone = [
        (file, test)
        for file, test in named
        if not file.startswith("tests/")
        and (not (path := ROOT / "tests" / file).exists() or (test and f"def {test}(" not in path.read_text()))
    ]
    assert len(named) > 20
    assert gone == []


def test_budgets_are_those_of_the_tiers():
    text = (ROOT / "tests" / "README.md").read_text()
    said = {
        name: int(minutes) * 60
        for name, minutes in re.findall(r"^\| `make test(?:-(\w+))?` .* (\d+) min \|$", text, re.M)
    }
    assert said == {"" if name == "test" else name: TIERS[name].budget for name in ("test", "services", "browser")}


FACE = re.compile(r"apps/(\w+/)+(admin|api|pages|urls)\b")
ROOT_OF_FACES = re.compile(r"apps/(api|operators|web)/")


def test_only_faces_and_their_roots_import_faces():
    """What the API, pages and admin show of an app is above all apps, wherever it stands."""
    modules = {str(path.relative_to(ROOT)): path for path in (ROOT / "apps").rglob("*.py")}
    others = [name for name in modules if not FACE.match(name) and not ROOT_OF_FACES.match(name)]
    imported = re.compile(r"^\s*(?:from|import) apps\.(?:\w+\.)+(?:admin|api|pages)\b", re.MULTILINE)
    assert len(modules) - len(others) > 100
    assert [name for name in others if imported.search(modules[name].read_text())] == []


def test_layers_name_every_app():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = " ".join(next(one["layers"] for one in contracts if one["type"] == "layers"))
    apps = {f"apps.{path.parent.name}" for path in (ROOT / "apps").glob("*/__init__.py")}
    assert apps - set(layers.split()) == set()
