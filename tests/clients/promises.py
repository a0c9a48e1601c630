"""Checks every answer in the tests against the schema."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from jsonschema import Draft202012Validator

JSON = dict[str, Any]
OPEN = {"AgentSkill"}  # a card may have more fields


@cache
def schema() -> JSON:
    """The schema, with undeclared properties forbidden."""
    found: JSON = SchemaGenerator(urlconf="parley.urls").get_schema(request=None, public=True)
    for name, component in found["components"]["schemas"].items():
        if "properties" in component and name not in OPEN:
            component.setdefault("additionalProperties", False)
    return found


@cache
def _addresses() -> list[tuple[re.Pattern[str], JSON]]:
    paths = schema()["paths"].items()
    found = [(re.compile(re.sub(r"{\w+}", "[^/]+", path)), verbs) for path, verbs in paths]
    return sorted(found, key=lambda one: one[0].pattern.count("[^/]+"))  # literal segments before parameters


def hold(method: str, address: str, status: int, media_type: str, body: Any) -> None:
    """Raises AssertionError, ValidationError if the schema does not allow the answer. Unknown addresses pass."""
    path = address.partition("?")[0].rstrip("/")
    verbs = next((verbs for pattern, verbs in _addresses() if pattern.fullmatch(path)), {})
    operation = verbs.get(method.lower())
    if operation is None:
        return
    promised = operation["responses"].get(str(status))
    assert promised is not None, f"{operation['operationId']} does not promise {status}"
    content = promised.get("content", {})
    if not content:
        assert body is None, f"{operation['operationId']} promises no body with {status}"
        return
    assert media_type in content, f"{operation['operationId']} does not promise {media_type} with {status}"
    if media_type.endswith("json"):
        whole = {**content[media_type]["schema"], "components": schema()["components"]}
        Draft202012Validator(whole, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(body)
