"""What must stay true of the house itself."""

import platform
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_the_platform_folder_never_becomes_a_package() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists(), "it would shadow the standard library's platform"
    assert platform.python_version()


def test_locks_carry_hashes_and_name_no_host() -> None:
    for lock in (ROOT / "requirements.lock", ROOT / "requirements-dev.lock"):
        text = lock.read_text()
        pinned = re.findall(r"^[\w.\[\],-]+==", text, re.MULTILINE)
        assert len(pinned) > 50
        assert text.count("--hash=sha256:") >= len(pinned)
        assert not re.search(r"https?://|--index-url|--find-links", text)


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    assert [folder for folder in folders if not (folder / "__init__.py").exists()] == []


def test_no_module_is_named_after_its_shape() -> None:
    shapes = {"services.py", "selectors.py", "utils.py", "helpers.py", "common.py", "misc.py"}
    parts = ("apps", "platform", "tests", "benchmarks", "faults", "interoperability")
    modules = [path for part in parts for path in (ROOT / part).rglob("*.py")]
    assert [path for path in modules if path.name in shapes] == []


def test_each_promise_has_the_test_that_the_table_names() -> None:
    named = re.findall(r"`([\w/]+\.py)(?:::(\w+))?`", (ROOT / "tests" / "README.md").read_text())
    gone = [
        (file, test)
        for file, test in named
        if not file.startswith("tests/")
        and (not (path := ROOT / "tests" / file).exists() or (test and f"def {test}(" not in path.read_text()))
    ]
    assert len(named) > 20
    assert gone == []
