"""Commands start fast, because scripts call them often."""

import os
import re
import subprocess
import sys

import pytest
from django.conf import settings

from tests.stack import ROOT

LOADED = "import sys, django; django.setup(); print(*sys.modules)"


def run(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout


def test_commands_load_no_pages_or_unused_services():
    loaded = run(LOADED).split()
    assert "apps.accounts.models" in loaded
    heavy = re.compile(r"daphne|uvicorn|twisted\.internet|config\.urls|apps\.operators\.(?!(apps|models)$)")
    assert [name for name in loaded if heavy.match(name)] == []
    unused = {"kombu.transport.redis": "redis" not in settings.CELERY_BROKER_URL, "psycopg": settings.EMBEDDED}
    assert [name for name, is_unused in unused.items() if is_unused and name in loaded] == []


@pytest.mark.services("a process of its own", only=True)
def test_start_scripts_of_0_1_go_on_working(tmp_path):
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "config.settings", "DATA_DIR": str(tmp_path)}
    names = "from config.asgi import application; from config.celery import app; from config.uvicorn_http import *"
    done = subprocess.run([sys.executable, "-c", names], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "FutureWarning: Start parley, not config" in done.stderr
