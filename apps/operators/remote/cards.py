"""A remote agent's card as operators see it. All of it is somebody else's text, and is shown as text."""

from __future__ import annotations

from typing import Any

from apps.remote.cards import is_spoken, origin_of
from apps.remote.models import Label
from console import cells
from console.cells import Tone

JSON = dict[str, Any]

SIGNATURES = {Label.VERIFIED: Tone.DONE, Label.UNSIGNED: Tone.STOPPED, Label.UNVERIFIED: Tone.WAITING}


def signature_of(label: str) -> Any:
    """What is known of the card's signature, as a sign and a word."""
    known = Label(label)
    return cells.state(known.label, SIGNATURES[known])


def facts_of(card: JSON, label: str, sha256: str) -> list[tuple[str, Any]]:
    """What a card says, each with its name."""
    able = card["capabilities"]
    provider = card.get("provider") or {}
    can = [word for name, word in (("streaming", "streams"), ("pushNotifications", "webhooks")) if able.get(name)]
    return [
        ("name", card["name"]),
        ("description", card["description"]),
        ("version", card["version"]),
        ("by", provider.get("organization") or cells.NOTHING),
        ("is called at", origin_of(card)),
        ("signature", signature_of(label)),
        ("can do", ", ".join(can) or cells.NOTHING),
        ("wants", ", ".join(card.get("securitySchemes") or {}) or "no credentials"),
        ("takes", ", ".join(card["defaultInputModes"]) or cells.NOTHING),
        ("makes", ", ".join(card["defaultOutputModes"]) or cells.NOTHING),
        ("SHA-256", cells.ident(sha256)),
    ]


def tables_of(card: JSON) -> list[JSON]:
    """Its interfaces and its skills, as tables."""
    interfaces = [
        (
            f"interface-{place}",
            (one["protocolBinding"], one["protocolVersion"], one["url"], "yes" if is_spoken(one) else "no"),
        )
        for place, one in enumerate(card["supportedInterfaces"])
    ]
    skills = [
        (f"skill-{place}", (one["id"], one["name"], cells.shortened(one["description"]), ", ".join(one["tags"])))
        for place, one in enumerate(card["skills"])
    ]
    return [
        {"title": "Interfaces", "headings": ("binding", "version", "URL", "Parley speaks it"), "rows": interfaces},
        {"title": "Skills", "headings": ("id", "name", "description", "tags"), "rows": skills},
    ]
