"""Documents name only existing commands, addresses, settings and files; tests/docs runs their code."""

import re

from django.core.management import get_commands
from django.urls import Resolver404, resolve

from apps.conversations.api.consumers import websocket_urlpatterns as events
from apps.conversations.pages.session.consumers import websocket_urlpatterns as pages
from tests.serving.test_environment import names_read
from tests.stack import ROOT, UVICORN

REFERENCE = ROOT / "docs" / "reference"
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]
TEXTS = {path: path.read_text() for path in DOCUMENTS}


def test_every_command_and_make_target_exists():
    everything = "".join(TEXTS.values())
    assert set(re.findall(r"\./manage\.py (\w+)", everything)) <= set(get_commands())
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([\w-]+)", everything)) <= targets


def leads_somewhere(path: str) -> bool:
    try:
        resolve(path, (*events, *pages) if path.startswith("/ws/") else None)
    except Resolver404:
        return False
    return True


def test_every_address_leads_somewhere():
    addresses = re.findall(r"`(/[^`]*)`", (REFERENCE / "addresses.md").read_text())
    assert addresses
    assert [path for path in addresses if not leads_somewhere(path)] == []


def test_every_setting_is_named_and_no_other():
    settings = (REFERENCE / "settings.md").read_text()
    assert set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*)`", settings)) == names_read()


def test_the_recommended_web_server_is_the_tested_one():
    command = " ".join(["uvicorn parley.asgi:application", *UVICORN])
    assert command in (REFERENCE / "settings.md").read_text().replace("\\\n    ", "")


def test_each_security_requirement_names_existing_tests():
    met, _, _ = TEXTS[ROOT / "docs" / "security.md"].partition("### Not met")
    rows = re.findall(r"^\| \d+\.\d.*$", met, re.MULTILINE)
    named = {row: re.findall(r"`([\w/]+\.py)((?:::\w+)+)`", row) for row in rows}
    assert len(named) > 80
    assert [row for row, tests in named.items() if not tests] == []
    for path, names in (one for tests in named.values() for one in tests):
        file = ROOT / "tests" / path
        assert file.exists(), path
        for name in names.split("::")[1:]:
            assert re.search(rf"^\s*(?:async def|def|class) {name}\b", file.read_text(), re.MULTILINE), (
                f"{path}::{name}"
            )


def test_each_promise_names_a_test_or_page():
    page = TEXTS[ROOT / "docs" / "explanation" / "from-other-systems.md"]
    promises = page.partition("\n## Promises\n")[2]
    rows = re.findall(r"^\| (.+) \| (`.+`|\[.+) \|$", promises, re.MULTILINE)
    tables = promises.count("| promise | shown in |")
    assert len(rows) == promises.count("\n| ") - tables > 250
    for promise, shown in rows:
        if not shown.startswith("["):
            path, test = shown.strip("`").split("::")
            assert re.search(rf"^(async )?def {test}\b", (ROOT / "tests" / path).read_text(), re.MULTILINE), promise


def test_every_named_link_and_file_exists():
    folders = [ROOT, ROOT / "platform", ROOT / "apps"]
    missing = []
    for document, text in TEXTS.items():
        prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
        links = re.findall(r"\]\((?!https?:)([^)#]+)\)", prose)
        missing += [(document, link) for link in links if not (document.parent / link).exists()]
        named = re.findall(r"`((?:platform|apps|tests|docs|config|engine|record)/[\w./]+)`", text)
        modules = re.findall(r"`((?:config|record|engine)\.[a-z_]+)`", text)
        for name in [*named, *(module.replace(".", "/") for module in modules)]:
            if not any((folder / f"{name}{end}").exists() for folder in folders for end in ("", ".py")):
                missing.append((document, name))
    assert missing == []
