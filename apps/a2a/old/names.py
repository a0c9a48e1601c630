"""What A2A 0.3 calls the fields of a request that 1.0 found fault with: their paths."""

from __future__ import annotations

import re
from collections.abc import Callable

from apps.a2a.old.forms import Form

Naming = Callable[[str, Form], str]

CONFIG = "pushNotificationConfig"  # in JSON-RPC's form
SCHEME = re.compile(r"\bauthentication\.scheme$")


def of_sending(path: str, form: Form) -> str:
    """Of a message and its configuration."""
    if part := re.fullmatch(r"message\.parts(?:(\[\d+\])(?:\.(\w+))?)?(.*)", path):
        position, name, rest = part.groups(default="")
        return f"message.{form.parts}{position}{_of_part(name, form)}{rest}"
    path = re.sub(r"^configuration\.taskPushNotificationConfig", f"configuration.{form.webhook}", path)
    return SCHEME.sub("authentication.schemes", path)


def of_asking(path: str, form: Form) -> str:
    """Of a request that names a task alone, whose fields 1.0 calls the same."""
    return path


def of_webhook(path: str, form: Form) -> str:
    """Of a webhook that is to be set."""
    if path == "taskId":
        return path
    return f"{CONFIG}.{SCHEME.sub('authentication.schemes', path)}"


def of_webhook_of_task(path: str, form: Form) -> str:
    """Of a request that names a webhook."""
    return {"taskId": "id", "id": f"{CONFIG}Id"}.get(path, path)


def _of_part(name: str, form: Form) -> str:
    """The last steps of the path of a part's field."""
    of_files = {"raw": form.bytes, "url": form.uri, "filename": "name", "mediaType": "mimeType"}
    if name in of_files:
        return f".file.{of_files[name]}"
    return f".{name}" if name else ""
