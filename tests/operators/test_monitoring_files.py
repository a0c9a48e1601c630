"""The dashboard, the alerts and the documentation name what `/metrics` has."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace

import pytest
import yaml
from django.utils import timezone

from apps.agents.models import Agent
from apps.housekeeping.models import Backup
from apps.operators import metrics as operators_metrics
from parley import db
from parley.telemetry import metrics
from tests.operators.scraping import Scrape, expressions_of, named_in, scrape
from tests.stack import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

SUFFIXES = ("_bucket", "_count", "_sum")
OF_PROMETHEUS = {"le", "instance"}
DASHBOARD = json.loads((ROOT / "deploy/grafana/parley.json").read_text())
RULES = [
    rule
    for group in yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    for rule in group["rules"]
]
PAGE = (ROOT / "docs/running/monitoring.md").read_text()


@pytest.fixture
async def told(echo, settings, monkeypatch):
    """A scrape in which every metric has a sample, so that its labels are there."""
    operators_metrics.forget_numbers()
    settings.PUBLIC_BASE_URL = "https://parley.example.org"
    monkeypatch.setattr(operators_metrics, "CERTIFICATE", SimpleNamespace(end=lambda: 1.0))
    for instrument in vars(metrics).values():
        if isinstance(instrument, metrics.Labelled):
            instrument[tuple("echo" for _ in instrument.labels)]
    await db.run(Agent.objects.filter(pk=echo.pk).update, kind=Agent.Kind.REMOTE)
    await db.run(Backup.objects.create, started_at=timezone.now(), state=Backup.State.COMPLETE)
    return await scrape()


def unknown_names(told: Scrape, expression: str) -> list[str]:
    """What an expression names that no scrape has."""
    named, grouped = named_in(expression)
    assert named, f"no metric in {expression}"
    missing = [name for name in named if name not in told.labels]
    missing += [f"{name}{{{label}}}" for name in named for label in named[name] - told.labels.get(name, set())]
    known = set().union(*(told.labels.get(name, set()) for name in named)) | OF_PROMETHEUS
    return missing + [f"by ({label})" for label in grouped - known]


async def test_panels_and_alerts_name_known_metrics(told):
    expressions = expressions_of(DASHBOARD["panels"]) + [rule["expr"] for rule in RULES]
    assert len(expressions) > 60
    wrong = {expression: unknown for expression in expressions if (unknown := unknown_names(told, expression))}
    assert wrong == {}


async def test_no_label_names_people_or_tasks(told):
    labels = set().union(*told.labels.values())
    assert labels.isdisjoint({"job", "instance", "task", "context", "user", "session", "run", "workspace"})


def test_alerts_say_what_happened_and_to_do():
    for rule in RULES:
        assert {"summary", "description"} <= rule["annotations"].keys(), rule["alert"]
        assert (ROOT / rule["annotations"]["runbook_url"]).read_text().startswith(f"# {rule['alert']}\n")
        assert rule["labels"]["severity"] in ("warning", "critical")
        labels = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert labels <= named_in(rule["expr"])[1], rule["alert"]


async def test_the_page_lists_every_metric_with_its_labels(told):
    listed = dict(re.findall(r"^\| `(parley_\w+)` \| ([^|]*) \|", PAGE, re.MULTILINE))
    documented = {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in listed.items()}
    exported = {
        name: set().union(*(told.labels.get(name + suffix, set()) for suffix in ("", *SUFFIXES))) - OF_PROMETHEUS
        for name in told.described
        if name.startswith("parley_")
    }
    assert documented == exported
    assert set(re.findall(r"`(Parley\w+)`", PAGE)) == {rule["alert"] for rule in RULES}
