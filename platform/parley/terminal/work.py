"""Agents, tasks and plans: lists, and runs of plans."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from parley.terminal.chat import CODES, FAILED, Work, find
from parley.terminal.client import JSON, Failure, Parley, path_of
from parley.terminal.questions import attach, typed
from parley.terminal.screen import Screen

ACTIVE = ("starting", "running")


def agents(parley: Parley, screen: Screen, options: Any) -> int:
    rows = parley.items("/agents", options.limit, **({"listed": "all"} if options.all else {}))
    _list(screen, rows, lambda row: (row["slug"], row["health"]["status"], row["name"], row["description"]))
    return 0


def tasks(parley: Parley, screen: Screen, options: Any) -> int:
    """List, show or cancel."""
    if options.action is None:
        asked = {"state": options.state, "agent": options.agent, "waiting": "true" if options.waiting else None}
        rows = parley.items("/tasks", options.limit, **{name: value for name, value in asked.items() if value})
        _list(screen, rows, lambda row: (row["id"], row["state"], row["agent"], row["updatedAt"][:16], _words(row)))
        return 0
    task = find(parley, "tasks", options.id, "task", "parley tasks")
    if options.action == "cancel":
        task = parley.post(path_of("tasks", task["id"]) + "/cancel")
    if screen.as_json:
        screen.record(task)
        return 0
    shown = {"task": task["id"], "state": task["state"], "agent": task["agent"], "session": task["sessionId"]}
    screen.table([*shown.items(), ("updated", task["updatedAt"])])
    screen.say((task["status"]["message"] or {}).get("content", ""))
    if options.action == "show":
        artifacts = parley.items("/artifacts", 1000, session=task["sessionId"], task=task["id"])
        screen.deliver(parley, artifacts)
    return 0


def _words(task: JSON) -> str:
    return str((task["status"]["message"] or {}).get("content", ""))[:60]


def _list(screen: Screen, rows: list[JSON], cells: Any) -> None:
    for row in rows if screen.as_json else ():
        screen.record(row)
    if not screen.as_json:
        screen.table([cells(row) for row in rows])
        if not rows:
            screen.note("There are none.")


def plans(parley: Parley, screen: Screen, options: Any) -> int:
    if options.action is None:
        rows = parley.items("/plans", options.limit)
        _list(screen, rows, lambda row: (row["slug"], f"{row['steps']} steps", row["name"], row["description"]))
        return 0
    is_run = _is_id(options.plan)
    named = find(parley, "plans/runs", options.plan, "run of a plan", "parley tasks") if is_run else None
    run = named or _start(parley, options)
    watched = Watched(parley, screen, run["id"])
    screen.note(f"Run {run['id']} of {run['plan']}.")
    watched.see(None)
    followed = Work(parley, screen, watched.see)
    task = followed.join(run["sessionId"], run["id"]) if named else followed.settle(run["sessionId"], run["id"], 0)
    return CODES.get(task["state"], FAILED)


def _is_id(text: str) -> bool:
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False


def _start(parley: Parley, options: Any) -> JSON:
    plan = find(parley, "plans", options.plan, "plan", "parley plans")
    schema = plan.get("inputs") or {}
    body: JSON = {"plan": options.plan, "inputs": _inputs(options.input, schema.get("properties") or {})}
    if options.text:
        body["text"] = options.text
    if options.file:
        body["files"] = [attach(parley, Path(path)) for path in options.file]
    run: JSON = parley.post("/plans/runs", body)["run"]
    return run


def _inputs(given: Iterable[str], fields: JSON) -> JSON:
    """From `name=value`, each of the type that the plan's schema says."""
    values: JSON = {}
    for one in given:
        name, equals, words = one.partition("=")
        if not equals or not name:
            raise Failure(f"{one!r} is not an input. Write it as --input name=value.", code=2)
        if name not in fields:
            known = ", ".join(fields) or "none"
            raise Failure(f"The plan has no input {name!r}. Its inputs: {known}.", code=2)
        try:
            values[name] = typed(words, fields[name])
        except ValueError as problem:
            raise Failure(f"The input {name}: {problem}", code=2) from None
    return values


class Watched:
    """Shows a line for each step that changes."""

    def __init__(self, parley: Parley, screen: Screen, run: str) -> None:
        self._parley, self._screen, self._run = parley, screen, run
        self._states: dict[Any, str] = {}

    def see(self, event: JSON | None) -> None:
        """An event of the run, or None: either may mean that steps changed."""
        if event and event["type"] != "agent_status":
            return
        for step in self._parley.get(f"/plans/runs{path_of(self._run)}")["steps"]:
            place = step["key"], step["item"], step["round"]
            before = self._states.get(place, "waiting")
            if step["state"] not in (before, "ended"):
                self._states[place] = step["state"]
                if before not in ACTIVE or step["state"] not in ACTIVE:
                    self._tell(step)

    def _tell(self, step: JSON) -> None:
        if self._screen.as_json:
            self._screen.record({"type": "step", "step": step})
            return
        number = "" if step["item"] is None else f" {step['item'] + 1}"
        again = f" (round {step['round']})" if step["round"] > 1 else ""
        state = "working" if step["state"] in ACTIVE else step["state"]
        who = f" by {step['agent']}" if step["agent"] and state == "working" else ""
        why = f": {step['why']}" if step["why"] else ""
        self._screen.note(f"{step['title']}{number}{again}: {state}{who}{why}")
