"""Whether what an agent answers belongs to what it was asked, and has the shape that A2A gives it."""

from __future__ import annotations

from typing import Any

from apps.remote.errors import Misbehaved

JSON = dict[str, Any]
KINDS = ("task", "message", "statusUpdate", "artifactUpdate")
LONGEST_ID = 512  # characters; ours are shorter, but they are not all that there are


class Subject:
    """What one call is about: checks its events, which are all of one task, in one context."""

    def __init__(self, task_id: str = "", context_id: str = "") -> None:
        """What is known beforehand; "" where the agent is to say it."""
        self._task_id, self._context_id = task_id, context_id

    def checked(self, event: JSON) -> JSON:
        """The event. Raises Misbehaved."""
        kinds = [kind for kind in KINDS if isinstance(event.get(kind), dict)]
        if len(kinds) != 1:
            raise Misbehaved("The agent sent an event that is not exactly one of: a task, a message, an update.")
        kind = kinds[0]
        value = event[kind]
        if kind == "task":
            self.check_task(value)
        else:
            self._follow(value.get("taskId", ""), value.get("contextId", ""), is_needed=kind != "message")
        if kind == "statusUpdate":
            _check_state(value)
        if kind == "artifactUpdate":
            _check_artifact(value.get("artifact"))
        return event

    def check_task(self, task: JSON) -> JSON:
        """The task. Raises Misbehaved."""
        self._follow(task.get("id", ""), task.get("contextId", ""), is_needed=True)
        _check_state(task)
        for artifact in task.get("artifacts", []):
            _check_artifact(artifact)
        return task

    def _follow(self, task_id: str, context_id: str, *, is_needed: bool) -> None:
        if is_needed and not task_id:
            raise Misbehaved("The agent sent a task without an id.")
        self._task_id = self._same(self._task_id, task_id, "task")
        self._context_id = self._same(self._context_id, context_id, "context")

    def _same(self, known: str, told: str, what: str) -> str:
        if len(told) > LONGEST_ID or not told.isprintable():
            raise Misbehaved(f"The agent sent the id of a {what} that cannot be kept.")
        if known and told and known != told:
            raise Misbehaved(f"The agent sent something of another {what} than the one that was asked for.")
        return known or told


def _check_state(value: JSON) -> None:
    status = value.get("status")
    if not isinstance(status, dict) or not status.get("state"):
        raise Misbehaved("The agent sent a task without a state.")


def _check_artifact(artifact: Any) -> None:
    if not isinstance(artifact, dict) or not artifact.get("artifactId"):
        raise Misbehaved("The agent sent an artifact without an id.")
    if len(artifact["artifactId"]) > LONGEST_ID or not artifact["artifactId"].isprintable():
        raise Misbehaved("The agent sent the id of an artifact that cannot be kept.")


def check_webhook(config: JSON, task_id: str) -> JSON:
    """The settings of a webhook. Raises Misbehaved."""
    if config.get("taskId", task_id) != task_id:
        raise Misbehaved("The agent answers with the webhook of another task.")
    return config
