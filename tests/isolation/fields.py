"""Every field of requests that can name something: from the OpenAPI document, and from A2A's own descriptors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from a2a.types import a2a_pb2
from google.protobuf.descriptor import Descriptor

from tests.isolation import features

DOCUMENT = Path(__file__).parents[2] / "docs/client-api/openapi.yaml"

Schema = dict[str, Any]

NAMES = {
    "agent": "agent",
    "agents[]": "agent",
    "answerId": "message of session",
    "channel": "channel",
    "collections": "collection",
    "contextId": "contextId",
    "id": "task of session",
    "leafId": "fork",
    "member": "member",
    "messageId": "message of session",
    "parent": "task of session",
    "plan": "plan",
    "project": "project",
    "references[]": "task of session",
    "referenceTaskIds[]": "task of session",
    "run": "plan run",
    "session": "session",
    "session_ids": "session",
    "sessionId": "session",
    "sessionIds": "session",
    "slug": "plan",
    "task": "task of session",
    "taskId": "task of session",
    "tenant": "agent",
    "uploadId": "upload",
}
"""What a field of this name names: a key of `Place.ids`."""
SPECIAL_NAMES = {
    "GET /api/v1/sessions": {"parent": "session"},
    "GetTaskPushNotificationConfig": {"id": "webhook"},
    "DeleteTaskPushNotificationConfig": {"id": "webhook"},
}
PLACES = {"cursor", "since", "pageToken"}
"""Where a list goes on: what another's leads to is the caller's own."""
_NAMELESS = """
    acceptedOutputModes[] access after algorithm archived arguments asCandidate asked at auth base before blind body
    branches catchUp catchUpLimit category choice Content-Type credentials cron data decision decline definition
    delivery digest dryRun email encoding events_limit events_since every_version everySeconds expiresInDays
    extensions[] filename format from goal graceSeconds hasMemory header headers health historyLength Idempotency-Key
    include includeArtifacts index inline inputs isForCallers isOn keepFiles keys kind kinds[] language limit listed
    max_gap mediaType message metadata mode name note only[] onlyIf options overlap p256dh pageSize part percent
    pinned position prefix publicKey q query questionsAtOnce rating raw reason retry returnImmediately role running
    scheme scopes[] secret secrets seen sessions sha256 sharing signature signed size skill source speed state
    status statusTimestampAfter step tag temporary text timestampHeader timeZone title to token type types
    unfinished Upload-Offset url username value values version voice wait waiting watchHours whose withArtifacts
    withBranches yaml
"""
NAMELESS = frozenset(_NAMELESS.split())
"""Fields that name nothing. What a plan's `definition` names, and whose a key (`Idempotency-Key`) is, others test."""
NEW = "configuration.taskPushNotificationConfig.id"
NAMELESS_HERE = {
    "PUT /api/v1/sessions/{session}/messages/{message}": {"run"},
    "POST /api/v1/deployments": {"slug"},
    "CreateTaskPushNotificationConfig": {"id"},
    "SendMessage": {NEW, "message.messageId"},
    "SendStreamingMessage": {NEW, "message.messageId"},
}
"""Fields that are called like something: switches, and what the caller gives a name."""


@dataclass(frozen=True)
class Field:
    """A field of an operation: of its query (`where` is "query") or of its body ("body").

    `path` is like `message.parts[].uploadId`.
    """

    operation: str
    where: str
    path: str

    def __str__(self) -> str:
        return f"{self.operation} {'?' if self.where == 'query' else ''}{self.path}"

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def is_known(self) -> bool:
        return self.kind is not None or self.name in NAMELESS | PLACES or self._is_nameless_here

    @property
    def _is_nameless_here(self) -> bool:
        first = re.split(r"[.[]", self.path)[0]
        return self.path in NAMELESS_HERE.get(self.operation, ()) or first in features.nameless(self.operation)

    @property
    def kind(self) -> str | None:
        """What it names; None if nothing."""
        special = SPECIAL_NAMES.get(self.operation, {})
        return None if self._is_nameless_here else special.get(self.name) or NAMES.get(self.name)


def openapi_fields() -> list[Field]:
    """Of queries and of JSON bodies."""
    document = yaml.load(DOCUMENT.read_text(), yaml.CSafeLoader)  # in a tenth of the time
    schemas = document["components"]["schemas"]
    found = []
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            operation = f"{method.upper()} {path}"
            named = (one["name"] for one in about.get("parameters", []) if one["in"] != "path")
            found += [Field(operation, "query", one) for one in named]
            json = about.get("requestBody", {}).get("content", {}).get("application/json", {})
            found += [Field(operation, "body", one) for one in dict.fromkeys(leaves(json.get("schema", {}), schemas))]
    return [one for one in found if one.path]


def leaves(schema: Schema, models: Schema, path: str = "", within: tuple[str, ...] = ()) -> Iterator[str]:
    """The fields of a JSON schema, such as `message.parts[].text`."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in within:
            yield from leaves(models[name], models, path, (*within, name))
        return
    inner = [one for choice in ("allOf", "anyOf", "oneOf") for one in schema.get(choice, [])]
    for one in inner:
        yield from leaves(one, models, path, within)
    if "items" in schema:
        yield from leaves(schema["items"], models, f"{path}[]", within)
    elif "properties" in schema:
        for name, one in schema["properties"].items():
            yield from leaves(one, models, f"{path}.{name}" if path else name, within)
    elif not inner:
        yield path


def a2a_fields() -> list[Field]:
    """Of the parameters of each method."""
    [service] = a2a_pb2.DESCRIPTOR.services_by_name.values()
    return [Field(method.name, "body", path) for method in service.methods for path in _paths(method.input_type)]


def _paths(message: Descriptor, before: str = "") -> Iterator[str]:
    for field in message.fields:
        path = f"{before}{field.json_name}{'[]' if field.is_repeated else ''}"
        if field.message_type and field.message_type.file is message.file:
            yield from _paths(field.message_type, f"{path}.")
        else:
            yield path


def put(body: Any, path: str, value: Any) -> Any:
    """The body with the field set; parts take the place of a text."""
    first, _, rest = path.partition(".")
    name, is_list = first.removesuffix("[]"), first.endswith("[]")
    body = dict(body or {})
    if rest:
        inner = body.get(name, [{}] if is_list else {})
        body[name] = [put(inner[0], rest, value)] if is_list else put(inner, rest, value)
        if name == "parts":
            body["parts"] = [{key: one for key, one in body["parts"][0].items() if key == "uploadId"}]
            body.pop("text", None)
    else:
        body[name] = [value] if is_list else value
    return body
