"""Commands start fast: scripts call them in turn."""

import re
import subprocess
import sys

import pytest
from django.contrib import admin
from django.core.management import call_command, get_commands, load_command_class

from console.commands import QuickCommand
from tests.stack import ROOT

LOADED = "import sys, django; django.setup(); print(*sys.modules)"


def test_a_command_loads_neither_pages_nor_a_server() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "apps.accounts.models" in loaded
    assert [name for name in loaded if re.match(r"daphne|twisted\.internet|config\.urls|apps\.\w+\.admin", name)] == []


def test_commands_of_the_apps_look_over_no_code_first() -> None:
    ours = {name: app for name, app in get_commands().items() if app.startswith("apps.")}
    assert len(ours) >= 14
    assert [name for name, app in ours.items() if not isinstance(load_command_class(app, name), QuickCommand)] == []


@pytest.mark.django_db
def test_who_checks_finds_operators_pages_registered() -> None:
    call_command("check", fail_level="WARNING")
    assert len(admin.site._registry) > 20
