"""The two forms in which A2A 0.3 writes the same things: that of JSON-RPC, and ProtoJSON over HTTP."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from apps.record.lifecycle import TaskState


@dataclass(frozen=True, slots=True)
class Form:
    """What one of the two calls things, where 1.0 calls them otherwise."""

    has_kinds: bool  # objects say by `kind` what they are
    user: str
    agent: str
    states: Mapping[str, str]  # by 1.0's names
    parts: str  # of a message
    bytes: str  # of a file
    uri: str
    webhook: str  # of a send's configuration
    encode: Callable[[str], str]  # a file's content, from and to base64
    decode: Callable[[Any], Any]
    waits_unasked: bool  # does a configuration that says nothing of blocking block?


def _as_it_is(content: Any) -> Any:
    return content


def _twice(content: str) -> str:
    return base64.b64encode(content.encode()).decode()


def _once(content: Any) -> Any:
    """Base64 from what may be base64 of that; what is not is left to be looked at later."""
    try:
        inner = base64.b64decode(content, validate=True).decode("ascii")
        base64.b64decode(inner, validate=True)
    except (TypeError, ValueError, binascii.Error):
        return content
    return inner


JSON_RPC = Form(
    has_kinds=True,
    user="user",
    agent="agent",
    states=MappingProxyType({state.wire: state.value for state in TaskState}),
    parts="parts",
    bytes="bytes",
    uri="uri",
    webhook="pushNotificationConfig",
    encode=_as_it_is,
    decode=_as_it_is,
    waits_unasked=True,
)

# A file's content is of the type bytes in the protocol buffers of 0.3, which ProtoJSON writes in base64; the SDK puts
# base64 into it, so that content is encoded twice.
HTTP_JSON = Form(
    has_kinds=False,
    user="ROLE_USER",
    agent="ROLE_AGENT",
    states=MappingProxyType({state.wire: state.wire.replace("CANCELED", "CANCELLED") for state in TaskState}),
    parts="content",
    bytes="fileWithBytes",
    uri="fileWithUri",
    webhook="pushNotification",
    encode=_twice,
    decode=_once,
    waits_unasked=False,
)
