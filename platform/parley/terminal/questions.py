"""Agents' questions as prompts: words, forms by JSON Schema, and approvals of tool calls."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from parley.terminal.client import JSON, Failure, Parley
from parley.terminal.screen import Screen, one_line

APPROVAL = "tool_approval"
DECISIONS = {"a": "approve", "approve": "approve", "y": "approve", "yes": "approve", "s": "session", "e": "edit"}
DECISIONS |= {"r": "refuse", "refuse": "refuse", "n": "refuse", "no": "refuse", "edit": "edit", "session": "session"}
YES, NO = ("y", "yes", "true", "1"), ("n", "no", "false", "0")
SKIPPED = object()


def read_line(prompt: str) -> str:
    """Raises EOFError and KeyboardInterrupt. Answers alone are on standard output, unless people see it."""
    if sys.stdin.isatty() and sys.stdout.isatty():
        with contextlib.suppress(ImportError):  # not everywhere; with it, `input` edits lines and has a history
            import readline  # noqa: F401
        return input(prompt)
    sys.stderr.write(prompt)
    sys.stderr.flush()
    if not (line := sys.stdin.readline()):
        sys.stderr.write("\n")
        raise EOFError
    return line.rstrip("\n")


def read_pipe(*, with_answers: bool = False) -> str:
    """What another program or a file gives on standard input; "" from people, or if answers are to come from it."""
    return "" if with_answers or sys.stdin.isatty() else sys.stdin.read()


def joined(words: str, piped: str) -> str:
    """One message: the words, then what they are about."""
    return "\n\n".join(text for text in (words, piped) if text.strip())


def read_message(parley: Parley, screen: Screen) -> tuple[str, list[JSON]]:
    """A line of words, and parts for the files that `/file PATH` named before."""
    parts: list[JSON] = []
    while True:
        words = read_line("> ").strip()
        if not words.startswith("/file"):
            return words, parts
        try:
            parts.append(attach(parley, Path(words.removeprefix("/file").strip())))
            screen.note("Attached. It goes with your next line.")
        except Failure as failure:
            screen.note(str(failure))


def attach(parley: Parley, path: Path) -> JSON:
    """A part for a file. Raises Failure."""
    path = path.expanduser()
    if not path.is_file():
        raise Failure(f"There is no file {path}. Give the path of a file.")
    try:
        return parley.upload(path)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}.") from None


class Form:
    """Asks a task's question. `answer` raises EOFError where nobody answers."""

    def __init__(self, parley: Parley, screen: Screen) -> None:
        self.parley, self.screen = parley, screen

    def answer(self, question: JSON) -> JSON:
        """The body of `POST /tasks/{id}/answer`."""
        schema = question.get("schema")
        self._files: list[JSON] = []
        if question.get("name") == APPROVAL:
            return {"data": self._decision()}
        fields = schema.get("properties") if isinstance(schema, dict) else None
        is_form = isinstance(fields, dict) and bool(fields)
        if not isinstance(schema, dict) or not (is_form or schema.get("type") or _choices(schema)):
            words, parts = "", list[JSON]()
            while not (words or parts):
                words, parts = read_message(self.parley, self.screen)
            return ({"text": words} if words else {}) | ({"parts": parts} if parts else {})
        if is_form:
            data: Any = self._object(schema, question.get("order"))
        else:
            data = self._field("", schema, is_required=True)
            if "type" not in schema:  # the server takes data for objects and for values of a known type
                return {"text": str(data)}
        told = {} if data is SKIPPED or (data == {} and self._files) else {"data": data}
        return told | ({"parts": self._files} if self._files else {})

    def _object(self, schema: JSON, order: Any) -> JSON:
        fields, required = schema["properties"], _listed(schema.get("required"))
        first = [name for name in _listed(order) if isinstance(name, str) and name in fields]
        names = list(dict.fromkeys([*first, *fields]))
        values = {name: self._field(name, fields[name], is_required=name in required) for name in names}
        return {name: value for name, value in values.items() if value is not SKIPPED}

    def _field(self, name: str, schema: Any, *, is_required: bool) -> Any:
        schema = schema if isinstance(schema, dict) else {}
        label = str(schema.get("title") or name)
        if schema.get("description"):
            self.screen.note(f"{label}: {schema['description']}" if label else str(schema["description"]))
        choices = _choices(schema)
        for number, (_, title) in enumerate(choices, 1):
            self.screen.note(f"{number}. {title}")
        hints = [_kind(schema)] if not choices and _kind(schema) else []
        hints += [f"Enter: {json.dumps(schema['default'], ensure_ascii=False)}"] if "default" in schema else []
        hints += ["Enter skips"] if not is_required and "default" not in schema else []
        prompt = one_line(f"{label} ({', '.join(hints)})" if hints else label).strip()
        return self._read(f"{prompt}> " if prompt else "> ", schema, choices, is_required=is_required)

    def _read(self, prompt: str, schema: JSON, choices: list[tuple[Any, str]], *, is_required: bool) -> Any:
        while True:
            words = read_line(prompt).strip()
            if not words and "default" in schema:
                return schema["default"]
            if not words and not is_required:
                return SKIPPED
            try:
                if schema.get("format") == "binary":
                    self._files.append(attach(self.parley, Path(words.removeprefix("@"))))
                    return SKIPPED
                return _parse(words, schema, choices)
            except (ValueError, Failure) as problem:
                self.screen.note(str(problem))

    def _decision(self) -> JSON:
        answer: JSON = {}
        while True:
            words = read_line("[a]pprove, approve for this [s]ession, [e]dit, [r]efuse> ").strip().lower()
            decision = DECISIONS.get(words)
            if decision == "edit":
                answer["arguments"] = self._arguments()
                decision = "approve"
            if decision == "session":
                return {**answer, "decision": "approve", "for_session": True}
            if decision == "refuse":
                reason = read_line("Reason (Enter skips)> ").strip()
                return {"decision": "refuse"} | ({"reason": reason} if reason else {})
            if decision:
                return {**answer, "decision": decision}
            self.screen.note("Answer with a, s, e or r.")

    def _arguments(self) -> Any:
        while True:
            try:
                return _parse(read_line("Arguments (JSON)> "), {"type": "object"}, [])
            except ValueError as problem:
                self.screen.note(str(problem))


def _choices(schema: JSON) -> list[tuple[Any, str]]:
    """Values with titles."""
    if isinstance(enum := schema.get("enum"), list):
        return [(value, str(value)) for value in enum]
    titled = _listed(schema.get("oneOf") or schema.get("anyOf"))
    named = [one for one in titled if isinstance(one, dict) and "const" in one]
    return [(one["const"], str(one.get("title") or one["const"])) for one in named] if len(named) == len(titled) else []


def _listed(value: Any) -> list[Any]:
    """What an agent calls a list may be anything."""
    return value if isinstance(value, list) else []


def _kind(schema: JSON) -> str:
    if schema.get("format") == "binary":
        return "path of a file"
    names = {"boolean": "yes or no", "integer": "whole number", "number": "number", "object": "JSON"}
    items = schema.get("items")
    if schema.get("type") == "array":
        return "several, with commas" if isinstance(items, dict) and _is_plain(items) else "JSON"
    return names.get(str(schema.get("type")), "")


def _is_plain(schema: JSON) -> bool:
    return bool(_choices(schema)) or schema.get("type") in ("string", "integer", "number")


def _parse(words: str, schema: JSON, choices: list[tuple[Any, str]]) -> Any:
    """Raises ValueError with a sentence."""
    if choices:
        return _chosen(words, choices)
    kind = schema.get("type")
    parsers: dict[str, Callable[[], Any]] = {
        "boolean": lambda: _truth(words),
        "integer": lambda: _number(words, int, "Give a whole number."),
        "number": lambda: _number(words, float, "Give a number."),
        "array": lambda: _several(words, schema.get("items")),
        "object": lambda: _json(words, dict),
    }
    return parsers[kind]() if isinstance(kind, str) and kind in parsers else words


def _chosen(words: str, choices: list[tuple[Any, str]]) -> Any:
    for value, title in choices:
        if words.lower() in (str(value).lower(), title.lower()):
            return value
    if words.isdecimal() and 1 <= int(words) <= len(choices):
        return choices[int(words) - 1][0]
    raise ValueError(f"Choose one of: {', '.join(title for _, title in choices)}.")


def _truth(words: str) -> bool:
    if words.lower() not in YES + NO:
        raise ValueError("Answer yes or no.")
    return words.lower() in YES


def _number(words: str, kind: type[int] | type[float], sentence: str) -> int | float:
    try:
        number = kind(words)
    except ValueError:
        raise ValueError(sentence) from None
    if not math.isfinite(number):
        raise ValueError(sentence)
    return number


def _several(words: str, items: Any) -> list[Any]:
    if not (isinstance(items, dict) and _is_plain(items)) or words.startswith("["):
        return list(_json(words, list))
    return [_parse(word.strip(), items, _choices(items)) for word in words.split(",") if word.strip()]


def _json(words: str, kind: type) -> Any:
    try:
        value = json.loads(words, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, kind):
        raise ValueError('Give JSON, such as {"name": "value"}.' if kind is dict else 'Give JSON, such as ["a", "b"].')
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def typed(words: str, schema: Any) -> Any:
    """A plan's input from a word of the command line. Raises ValueError with a sentence."""
    schema = schema if isinstance(schema, dict) else {}
    return _parse(words, schema, _choices(schema))
