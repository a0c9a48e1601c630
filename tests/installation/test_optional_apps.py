"""Optional apps can be left out, and those of installed packages are taken in."""

from __future__ import annotations

import uuid
from importlib.metadata import EntryPoint

import httpx
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.optional.evaluations.models import Example
from apps.record.models import Context
from apps.remote.models import Peer
from parley import environment
from parley.management.left_out import refuse_apps_with_rows
from tests import stack
from tests.stack import ROOT

EXAMPLE = ROOT / "examples" / "clippings_app"
IN_PROCESSES = pytest.mark.services("Parley in processes of its own, without its optional apps", only=True)
LIBRARIES = ("ag_ui", "mcp_types")
"""Of optional apps alone."""
VISIT = f"""
import sys
sys.modules.update(dict.fromkeys({LIBRARIES}))
import django
django.setup()
from django.contrib import admin
from django.test import Client
from django.urls import NoReverseMatch, get_resolver, reverse
from apps.accounts.models import User
from apps.record.models import Artifact
from parley.faces.cells import list_url, page_url

def visit(email, urls):
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(User.objects.get(email=email))
    for url in urls:
        print(client.get(url).status_code, url)

def pages():
    for name in get_resolver().namespace_dict["web"][1].reverse_dict:
        if isinstance(name, str):
            try:
                yield reverse(f"web:{{name}}")
            except NoReverseMatch:
                pass

def admin_pages():
    yield reverse("admin:index")
    for model in admin.site._registry:
        yield list_url(model)
        yield from (page_url(model, row.pk) for row in model.objects.all()[:1])

def artifact_pages():
    row = Artifact.objects.select_related("task").latest("pk")
    session, artifact = row.task.context_id, (row.task.context_id, row.task_id, row.artifact_id)
    for name in ("session", "as-markdown", "files"):
        yield reverse(f"web:{{name}}", args=[session])
    for name in ("artifact-look", "artifact-provenance"):
        yield reverse(f"web:{{name}}", args=artifact)
    yield reverse("web:agent", args=["echo"])

visit("demo@parley.local", [*pages(), *artifact_pages()])
visit("admin@parley.local", admin_pages())
"""
"""An exception in a page ends it."""


@pytest.fixture(scope="module")
def core(tmp_path_factory):
    """Parley without its optional apps, and with that of a package."""
    installed = tmp_path_factory.mktemp("site")
    about = installed / "parley_clippings-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: parley-clippings\nVersion: 0.1.0\n")
    (about / "entry_points.txt").write_text("[parley.apps]\nclippings = clippings\n")
    with stack.running({}, PARLEY_APPS="clippings", PYTHONPATH=f"{installed}:{EXAMPLE}") as own:
        yield own


@pytest.fixture
def caller(core):
    with httpx.Client(base_url=core.url, headers={"Authorization": f"Bearer {core.demo_key}"}, timeout=60) as client:
        yield client


@pytest.fixture
def answered(caller):
    """The state of a task of echo."""
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": "Hello"}]}
    call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    answer = caller.post("/a2a/echo", json=call, headers={"A2A-Version": "1.0"}).json()
    return str(answer["result"]["task"]["status"]["state"])


@IN_PROCESSES
def test_core_alone_serves_a2a_and_its_api(answered, caller):
    assert answered == "TASK_STATE_COMPLETED"
    paths = caller.get("/api/v1/schema", headers={"Accept": "application/json"}).json()["paths"]
    assert "/api/v1/sessions" in paths
    assert "/api/v1/exports" not in paths
    for left_out in ("/v1/models", "/mcp", "/agui/echo", "/langgraph/info", "/federation/agents", "/api/v1/exports"):
        assert caller.get(left_out).status_code == 404, left_out


@IN_PROCESSES
def test_core_alone_shows_every_page(core, answered):
    seen = dict(line.split(" ", 1)[::-1] for line in core.python("-c", VISIT).stdout.splitlines())
    assert len(seen) > 80
    assert {seen[url] for url in ("/", "/settings/data", "/clippings", "/admin/", "/admin/agents/agent/")} == {"200"}
    assert {status for url, status in seen.items() if url.startswith("/sessions/")} == {"200"}
    assert not [url for url, status in seen.items() if status >= "500"]


@IN_PROCESSES
def test_app_of_package_adds_channel(caller):
    channel = {"type": "ntfy", "url": "https://1.1.1.1/my-topic", "name": "Phone"}
    assert caller.post("/api/v1/notifications/channels", json=channel).json()["type"] == "ntfy"


KEEP = """
from django.test import Client
from apps.accounts.models import User
from apps.agents.definitions import registered_tools
from apps.notifications import wording
from apps.notifications.channel_types import channel_types
from apps.record.models import Task
from clippings.tools import _keep
from parley.db import sql
task = Task.objects.exclude(owner=None).latest("pk")
print("keep_clipping" in registered_tools())
print(_keep(str(task.pk), "A quotation"), _keep(str(task.pk), "A quotation"))
for person in (task.owner, User.objects.exclude(pk=task.owner_id).filter(is_active=True)[0]):
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(person)
    print(client.get("/clippings").text.count("A quotation"))
print(channel_types()["ntfy"].body(wording.test_notice(sql.database_time())).decode())
"""


@IN_PROCESSES
def test_tool_page_and_channel_of_package_work(core, answered):
    lines = core.manage("shell", "--no-imports", "-c", KEEP).stdout.splitlines()
    assert lines[:4] == ["True", "It is kept. It is kept.", "1", "0"]
    assert core.url in lines[-1]


@pytest.fixture
def left_out(settings):
    def leave(name: str) -> None:
        settings.LEFT_OUT = {name: f"apps.optional.{name}"}

    return leave


def cold(ada: User, echo: Agent) -> None:
    now = timezone.now()
    known = {"owner": ada, "workspace": ada.personal_workspace, "agent": echo, "created_at": now, "updated_at": now}
    Context.objects.create(cold_file="archives/one", **known)


def rated(ada: User, echo: Agent) -> None:
    Example.objects.create(agent=echo, text="Hello")


def paired(ada: User, echo: Agent) -> None:
    Peer.objects.create(name="Far", state=Peer.State.PAIRED)


@pytest.mark.django_db
@pytest.mark.parametrize(("name", "fill"), [("archive", cold), ("evaluations", rated), ("federation", paired)])
def test_app_with_rows_cannot_be_left_out(ada, echo, left_out, name, fill, capsys):
    left_out(name)
    refuse_apps_with_rows()
    fill(ada, echo)
    with pytest.raises(SystemExit):
        refuse_apps_with_rows()
    assert f"leaves out {name}, but there are" in capsys.readouterr().err


@pytest.fixture
def packages(monkeypatch):
    point = EntryPoint("clippings", "clippings", "parley.apps")
    monkeypatch.setattr(environment, "entry_points", lambda group: [point])


EVERY = ["django", "apps.optional.mcp", "apps.web", "apps.optional.backup"]


@pytest.mark.parametrize(
    ("named", "installed"),
    [
        (None, [*EVERY, "clippings"]),
        ("", ["django", "apps.web"]),
        ("backup, clippings", ["django", "apps.web", "apps.optional.backup", "clippings"]),
    ],
)
def test_setting_names_optional_apps(monkeypatch, packages, named, installed):
    if named is None:
        monkeypatch.delenv("PARLEY_APPS", raising=False)
    else:
        monkeypatch.setenv("PARLEY_APPS", named)
    assert environment.chosen_apps(EVERY)[0] == installed


def test_unknown_and_ambiguous_apps_are_refused(monkeypatch, packages):
    monkeypatch.setenv("PARLEY_APPS", "mpc")
    with pytest.raises(ImproperlyConfigured, match="mcp, backup, clippings"):
        environment.chosen_apps(EVERY)
    monkeypatch.setenv("PARLEY_APPS", "channels.slack")
    with pytest.raises(ImproperlyConfigured, match="needs channels"):
        environment.chosen_apps([*EVERY, "apps.optional.channels", "apps.optional.channels.slack"])
    monkeypatch.setattr(environment, "entry_points", lambda group: [EntryPoint("mcp", "other", group)])
    with pytest.raises(ImproperlyConfigured, match="Two installed packages have an app called mcp"):
        environment.chosen_apps(EVERY)
