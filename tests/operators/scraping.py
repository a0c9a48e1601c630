"""Reads `/metrics` as Prometheus does, through the ASGI application."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from parley.asgi import application

LOCAL = "127.0.0.1"


def caller(peer: str = LOCAL) -> httpx.AsyncClient:
    """A client whose requests come from this address."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(application, client=(peer, 1)), base_url="http://localhost")


async def status_for(peer: str, headers: Mapping[str, str] = {}) -> int:
    async with caller(peer) as client:
        return (await client.get("/metrics", headers=headers)).status_code


async def scrape() -> Scrape:
    async with caller() as client:
        response = await client.get("/metrics")
    assert response.status_code == 200
    return Scrape(response.text)


class Scrape:
    """The samples of one scrape, and the labels of each metric."""

    def __init__(self, text: str) -> None:
        self.values: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.labels: dict[str, set[str]] = {}
        self.described: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            self.described[family.name + ("_total" if family.type == "counter" else "")] = family.documentation
            for sample in family.samples:
                self.values[sample.name, frozenset(sample.labels.items())] = sample.value
                self.labels.setdefault(sample.name, set()).update(sample.labels)

    def value(self, name: str, **labels: str) -> float:
        return self.values.get((name, frozenset(labels.items())), 0.0)

    def growth(self, before: Scrape, name: str, **labels: str) -> float:
        return self.value(name, **labels) - before.value(name, **labels)


SELECTOR = re.compile(r"\b([a-z0-9_]+)(?:\{([^}]*)\})?\s*(?:\[[^\]]*\])?")
GROUPS = re.compile(r"\b(?:by|without)\s*\(([^)]*)\)")


def named_in(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """The metrics of a PromQL expression, each with the labels that select it, and the labels of its groups."""
    metrics: dict[str, set[str]] = {}
    for name, selection in SELECTOR.findall(expression):
        if name.startswith(("parley_", "process_")):
            metrics.setdefault(name, set()).update(re.findall(r"([a-z_]+)\s*(?:=|!)", selection))
    grouped = {label.strip() for labels in GROUPS.findall(expression) for label in labels.split(",")}
    return metrics, grouped


def expressions_of(panels: list[dict[str, Any]]) -> list[str]:
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]
