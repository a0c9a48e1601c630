"""Inputs and artifacts of the showcase's plan agents."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from agentkit import load_handler, testing
from examples import showcase

DATA = Path(showcase.__file__).parent / "research" / "data"
HANDLERS = {shown.slug: load_handler(shown.handler) for shown in showcase.AGENTS}

Parts = list[dict[str, Any]]


def message(text: str, parts: Parts = (), **more: Any) -> dict[str, Any]:
    return {"messageId": str(uuid4()), "role": "ROLE_USER", "parts": [{"text": text}, *parts], **more}


def csv_part(name: str, content: str) -> dict[str, Any]:
    return {"text": content, "filename": name, "mediaType": "text/csv"}


def data(run: testing.Run) -> dict[str, Any]:
    return next(value for artifact in run.delivered for value in artifact.data)


def sample(name: str) -> str:
    return (DATA / name).read_text()
