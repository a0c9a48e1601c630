"""Commands start fast, because scripts call them often."""

import re
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management import get_commands, load_command_class

from console.commands import QuickCommand
from tests.stack import ROOT

LOADED = "import sys, django; django.setup(); print(*sys.modules)"
CHECKED = """
import django
django.setup()
from django.contrib.admin import site
from django.core.checks import run_checks
site.check = lambda app_configs: print(len(site._registry)) or []
assert run_checks(tags=["admin"]) == []
"""


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_a_command_loads_neither_pages_nor_a_server_nor_a_database_or_broker_that_is_not_used() -> None:
    loaded = run(LOADED).split()
    assert "apps.accounts.models" in loaded
    heavy = re.compile(r"daphne|uvicorn|twisted\.internet|config\.urls|apps\.operators\.(?!(apps|models)$)")
    assert [name for name in loaded if heavy.match(name)] == []
    unused = {"kombu.transport.redis": "redis" not in settings.CELERY_BROKER_URL, "psycopg": settings.EMBEDDED}
    assert [name for name, is_unused in unused.items() if is_unused and name in loaded] == []


def test_commands_of_the_apps_look_over_no_code_first() -> None:
    ours = {name: app for name, app in get_commands().items() if app.startswith("apps.")}
    assert len(ours) >= 13
    assert [name for name, app in ours.items() if not isinstance(load_command_class(app, name), QuickCommand)] == []


@pytest.mark.slow("a process that loads all pages")
def test_who_checks_operators_pages_has_them_all_loaded() -> None:
    assert int(run(CHECKED)) > 20
