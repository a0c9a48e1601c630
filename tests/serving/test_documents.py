"""The documents speak of what is there: commands, addresses, settings and files. What their code does: tests/docs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands
from django.urls import Resolver404, resolve

from apps.api.lines import websocket_urlpatterns as events
from apps.web.routing import websocket_urlpatterns as pages
from tests.serving.test_environment import names_read
from tests.stack import ROOT

SOCKETS = (*events, *pages)
README = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]


def test_every_command_exists() -> None:
    named = set(re.findall(r"\./manage\.py (\w+)", "".join(document.read_text() for document in DOCUMENTS)))
    assert named <= set(get_commands())


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([\w-]+)", "".join(document.read_text() for document in DOCUMENTS)))
    assert named <= targets


def section(title: str) -> str:
    return README.split(f"## {title}\n")[1].split("\n## ")[0]


@pytest.mark.parametrize("path", re.findall(r"`(/[^`]*)`", section("Addresses")))
def test_every_address_leads_somewhere(path: str) -> None:
    try:
        resolve(path, SOCKETS if path.startswith("/ws/") else None)
    except Resolver404:
        pytest.fail(f"{path} leads nowhere")


def test_every_setting_is_named_and_no_other() -> None:
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", section("Settings")))
    assert named == names_read()


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_leads_to_one(document: Path) -> None:
    prose = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", prose)
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_and_file_that_is_named_exists(document: Path) -> None:
    folders = [ROOT, ROOT / "platform", ROOT / "apps"]
    named = re.findall(r"`((?:platform|apps|tests|docs|config|runtime)/[\w./]+)`", document.read_text())
    named += [
        found.replace(".", "/")
        for found in re.findall(r"`((?:config|runtime|conversations)\.[a-z_]+)`", document.read_text())
    ]
    endings = ("", ".py")
    missing = [
        name for name in named if not any((folder / f"{name}{end}").exists() for folder in folders for end in endings)
    ]
    assert missing == []


def test_platform_is_no_package() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()
