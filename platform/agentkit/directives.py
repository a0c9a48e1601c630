"""Directives: a dict, or JSON in text, by which a plain handler moves its task, as language models are told to write.

    {"state": "auth-required", "prompt": "I need your calendar's key.", "auth_type": "api_key", "service": "calendar"}

**What is a directive.** An object with `state`, in A2A's words in any case and with `-` or `_`:

- `input-required` and `auth-required`, with anything else in it. Used are `prompt` (or `message`, or `question`: what
  the person is told), `auth_type`, `service`, `slot` and `schema`; `prompt`, `auth_type` and `service` are also kept in
  the status message's metadata.
- `completed`, `failed` and `rejected`, only with words (`prompt` or `message`) and nothing else but `code` and
  `metadata`, so that a report about some task stays the data that it is; and only where it is all that was returned.

An object that has one member, or has a member called `response`, `result`, `output` or `answer`, stands for that member
if there are words in it, and a string that is JSON stands for what it says, up to eight deep.

**Where it is found in text.** Text that is JSON as a whole is read as such. Otherwise it is read as CommonMark, and
there is a directive where exactly one is found

- in a paragraph, alone or amid its words (quotations, lists, headings and inline code do not count), or
- as all that a fenced block holds, whose language is `json` or not named, which ends the text and is its only code,
  with one paragraph before it at most.

A paragraph that says it is an example (by one of `prose.EXAMPLES`) shows JSON and does not mean it, nor does the block
after it. Indented code is never read. Words around a directive that has no prompt are its prompt. Text of more than
64 Ki characters is read only where it is JSON as a whole.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from agentkit.prose import read_json, said_in

type State = Literal["input-required", "auth-required", "completed", "failed", "rejected"]

ASKING = ("input-required", "auth-required")
ENDING = ("completed", "failed", "rejected")
WORDS = ("prompt", "message", "question")
KEPT = ("prompt", "auth_type", "service")
ENVELOPES = ("response", "result", "output", "answer")
UNSAID = {"input-required": "Please say more.", "auth-required": "A credential is needed to go on."}
DEPTH = 8
LONGEST = 65_536


@dataclass(frozen=True)
class Directive:
    """A state to move to, with its words and what else was said."""

    state: State
    message: str
    metadata: dict[str, Any] = field(default_factory=dict)
    slot: str = ""
    schema: dict[str, Any] | None = None
    code: str = ""


def directive_in(value: str | Mapping[str, Any]) -> Directive | None:
    """The directive that a dict or a text holds, by the rules above; never raises."""
    if not isinstance(value, str):
        return _read(value, whole=True)
    text = value.strip()
    if "state" not in text or not text:
        return None
    is_json, whole = read_json(text)
    if is_json:
        return _read(whole, whole=True)
    if len(text) > LONGEST:
        return None
    said = [_read(one.value, whole=one.is_all, around=one.around) for one in said_in(text)]
    found = [directive for directive in said if directive is not None]
    return found[0] if len(found) == 1 else None


def _read(value: Any, *, whole: bool, around: str = "", depth: int = 0) -> Directive | None:
    """The directive that a JSON value is, or stands for."""
    while isinstance(value, str):  # each time it is shorter
        is_json, value = read_json(value)
        if not is_json:
            return None
    if not isinstance(value, Mapping) or depth > DEPTH:
        return None
    if found := _directive(value, around, whole=whole, needs_words=depth > 0):
        return found
    for inner in _inside(value):
        if found := _read(inner, whole=whole, around=around, depth=depth + 1):
            return found
    return None


def _inside(value: Mapping[str, Any]) -> list[Any]:
    return list(value.values()) if len(value) == 1 else [value[name] for name in ENVELOPES if name in value]


def _directive(value: Mapping[str, Any], around: str, *, whole: bool, needs_words: bool) -> Directive | None:
    named = value.get("state")
    if not isinstance(named, str):
        return None
    state = named.strip().lower().replace("_", "-").removeprefix("task-state-")
    said = next((text for name in WORDS if isinstance(text := value.get(name), str) and text.strip()), "")
    if needs_words and not said:
        return None
    if state in ASKING:
        metadata = {name: value[name] for name in KEPT if isinstance(value.get(name), str) and value[name]}
        return Directive(
            cast(State, state),
            said or around or UNSAID[state],
            metadata,
            _typed(value, "slot", str) or "",
            _typed(value, "schema", dict),
        )
    ends = whole and state in ENDING and said and value.keys() <= {"state", "prompt", "message", "code", "metadata"}
    if not ends:
        return None
    return Directive(
        cast(State, state), said, _typed(value, "metadata", dict) or {}, code=_typed(value, "code", str) or ""
    )


def _typed[T](value: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    found = value.get(name)
    return found if isinstance(found, kind) else None
