"""Directives: a dict, or JSON in text, that asks a question or ends a task. Language models are told to write them.

    {"state": "auth-required", "prompt": "I need your calendar's key.", "auth_type": "api_key", "service": "calendar"}

**What is a directive.** An object with `state`, in A2A's words, in any case, with `-` or `_`:

- `input-required` and `auth-required`, with any other members. Used are `prompt` (or `message`, or `question`: the text
  for the person), `auth_type`, `service`, `slot` and `schema`. The status message's metadata also has `prompt`,
  `auth_type` and `service`, and all members that are not used.
- `payment-required`, only as a dict that a handler returns, with `amount`, `asset`, `network`, `pay_to` and what else
  `PaymentRequired` takes. What a model or another program writes asks for no payment.
- `completed`, `failed` and `rejected`, only with a text (`prompt` or `message`), as the whole answer. Members besides
  `code` and `metadata` make JSON in text data, such as a report about a task. Those of a dict are delivered as data
  (`data` alone as it is), or become metadata of a failure.

A dict with a text and another state, or with a misspelled one, is an error (`mistake_in`).

An object with one member, or with a member `response`, `result`, `output` or `answer`, stands for that member if it has
a text. A string with JSON stands for that JSON. Both apply up to eight levels deep.

**Where text has one.** If the whole text is JSON, that JSON is read. Otherwise the text is read as CommonMark. It has a
directive if exactly one is found

- in a paragraph, alone or between words (not in quotations, lists, headings or inline code), or
- as the whole content of a fenced block, with language `json` or none. The block must end the text, be its only code,
  and follow at most one paragraph.

A paragraph with one of `EXAMPLES` shows JSON as an example; it and the next block are not read. Indented code is never
read. If a directive has no prompt, the words around it are its prompt. Of text longer than 64 Ki characters only JSON
as a whole is read.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, cast

from agentkit.errors import did_you_mean, near_miss

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline


type State = Literal["input-required", "auth-required", "payment-required", "completed", "failed", "rejected"]

ASKING_STATES = ("input-required", "auth-required")
PAYMENT_STATE = "payment-required"
PAYMENT_KEYS = ("amount", "asset", "network", "pay_to", "description", "seconds", "extra")
ENDING_STATES = ("completed", "failed", "rejected")
MESSAGE_KEYS = ("prompt", "message", "question")
METADATA_KEYS = ("prompt", "auth_type", "service")
ASKED_KINDS: dict[str, type] = {"slot": str, "schema": Mapping}
ASKED_WORDS = {"slot": "a str, its name", "schema": "a dict, the JSON Schema of the answer"}
USED_KEYS = frozenset({"state", *MESSAGE_KEYS, *METADATA_KEYS, "slot", "schema", "metadata"})
ENDING_KEYS = frozenset({"state", "prompt", "message", "code", "metadata"})
OTHER_STATES = ("submitted", "working", "canceled", "cancelled", "unknown")  # A2A's, which no handler returns
ENVELOPES = ("response", "result", "output", "answer")
DEFAULT_PROMPTS = {"input-required": "Please say more.", "auth-required": "A credential is needed to go on."}
DEFAULT_PROMPTS[PAYMENT_STATE] = "A payment is needed to go on."
MAX_NESTING = 8
MAX_TEXT_LENGTH = 65_536


@dataclass(frozen=True)
class Directive:
    """A state to move to, with its text and options."""

    state: State
    message: str
    metadata: dict[str, Any] = field(default_factory=dict)
    slot: str = ""
    schema: dict[str, Any] | None = None
    code: str = ""
    data: Any = None


def mistake_in(value: Mapping[str, Any]) -> str:
    """What is wrong with a dict of an author that is meant as a directive, as a sentence; "" if nothing."""
    name = "state" if "state" in value else near_miss("state", [one for one in value if isinstance(one, str)])
    named = value.get(name)
    if not isinstance(named, str):
        return ""
    state, has_text, known = _state_named(named), bool(_text_of(value)), (*ASKING_STATES, PAYMENT_STATE, *ENDING_STATES)
    if state in known and name != "state":
        return f"A dict has {name!r}. Did you mean 'state'?" if has_text else ""
    if state in ASKING_STATES:
        wrong = [one for one, kind in ASKED_KINDS.items() if not isinstance(value.get(one), kind | None)]
        return f"The {wrong[0]} of a dict that asks is {ASKED_WORDS[wrong[0]]}." if wrong else ""
    if state in known:
        return ""
    hint = did_you_mean(state, known)
    is_bare = value.keys() <= USED_KEYS | {"code", "data"} and (hint or state in OTHER_STATES)
    if name != "state" or not (has_text or is_bare):
        return ""
    return f"A dict's state may be {', '.join(known)}.{hint} Data with a state of its own is Artifact.json(name, data)."


def directive_in(value: str | Mapping[str, Any]) -> Directive | None:
    """The directive in a dict or a text, by the rules above. Never raises."""
    if not isinstance(value, str):
        return _read(value, whole=True, is_own=True)
    text = value.strip()
    if "state" not in text or not text:
        return None
    is_json, whole = read_json(text)
    if is_json:
        return _read(whole, whole=True)
    if len(text) > MAX_TEXT_LENGTH:
        return None
    said = [_read(one.value, whole=one.is_all, surrounding=one.surrounding) for one in find_json(text)]
    found = [directive for directive in said if directive is not None]
    return found[0] if len(found) == 1 else None


def _read(value: Any, *, whole: bool, surrounding: str = "", depth: int = 0, is_own: bool = False) -> Directive | None:
    while isinstance(value, str):
        is_json, value = read_json(value)
        if not is_json:
            return None
    if not isinstance(value, Mapping) or depth > MAX_NESTING:
        return None
    if found := _directive(value, surrounding, whole=whole, needs_words=depth > 0, is_own=is_own):
        return found
    for inner in _enveloped(value):
        if found := _read(inner, whole=whole, surrounding=surrounding, depth=depth + 1):
            return found
    return None


def _enveloped(value: Mapping[str, Any]) -> list[Any]:
    return list(value.values()) if len(value) == 1 else [value[name] for name in ENVELOPES if name in value]


def _state_named(text: str) -> str:
    return text.strip().lower().replace("_", "-").removeprefix("task-state-")


def _text_of(value: Mapping[str, Any]) -> str:
    return next((text for name in MESSAGE_KEYS if isinstance(text := value.get(name), str) and text.strip()), "")


def _directive(
    value: Mapping[str, Any], surrounding: str, *, whole: bool, needs_words: bool, is_own: bool
) -> Directive | None:
    """`is_own`: a dict that an author wrote."""
    named = value.get("state")
    if not isinstance(named, str):
        return None
    state, said = _state_named(named), _text_of(value)
    if needs_words and not said:
        return None
    if state in ASKING_STATES:
        metadata = {name: value[name] for name in METADATA_KEYS if isinstance(value.get(name), str) and value[name]}
        metadata |= {name: given for name, given in value.items() if name not in USED_KEYS and _is_json(given)}
        metadata = (_typed(value, "metadata", dict) or {}) | metadata
        return Directive(
            cast(State, state),
            said or surrounding or DEFAULT_PROMPTS[state],
            metadata,
            _typed(value, "slot", str) or "",
            _typed(value, "schema", dict),
        )
    if state == PAYMENT_STATE:
        asked = {name: value[name] for name in PAYMENT_KEYS if name in value}
        metadata = _typed(value, "metadata", dict) or {}
        return Directive("payment-required", said or DEFAULT_PROMPTS[state], metadata, data=asked) if is_own else None
    others = {name: given for name, given in value.items() if name not in ENDING_KEYS}
    if not (whole and state in ENDING_STATES and said) or (others and not is_own):
        return None
    metadata, code = _typed(value, "metadata", dict) or {}, _typed(value, "code", str) or ""
    if state != "completed":
        return Directive(cast(State, state), said, others | metadata, code=code)
    data = others["data"] if others.keys() == {"data"} else others or None
    return Directive(cast(State, state), said, metadata, data=data)


def _is_json(value: Any) -> bool:
    """Whether a member can be kept; a dict of Python may have others."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True


def _typed[T](value: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    found = value.get(name)
    return found if isinstance(found, kind) else None


EXAMPLES = frozenset({"example", "examples", "e.g", "snippet", "syntax"})
"""A paragraph with one of these words shows an example."""

MAX_BRACES = 200
"""Braces of a paragraph that are tried: each may cost a scan of the rest."""


@dataclass(frozen=True)
class FoundJson:
    """A JSON value, the words around it, and whether it is the whole text."""

    value: Any
    surrounding: str
    is_all: bool = False


@dataclass(frozen=True)
class Paragraph:
    text: str
    code: list[tuple[int, int]]

    @property
    def is_example(self) -> bool:
        return not EXAMPLES.isdisjoint(re.findall(r"[a-z]+(?:\.[a-z])?", self.text.lower()))


type Block = Paragraph | str | None
"""A paragraph, the content of a fenced block that may be JSON, or anything else."""


def find_json(text: str) -> Iterator[FoundJson]:
    """The JSON values of a text, in order."""
    blocks = _blocks(text)
    for at, block in enumerate(blocks):
        if isinstance(block, Paragraph):
            yield from () if block.is_example else _json_in_paragraph(block)
        elif block is not None and at == len(blocks) - 1 and _may_end(blocks[:at]):
            lead = blocks[0].text if isinstance(blocks[0], Paragraph) else ""
            is_json, value = read_json(block)
            if is_json:
                yield FoundJson(value, lead, is_all=at == 0)


def read_json(text: str) -> tuple[bool, Any]:
    """Whether the text is JSON, and its value."""
    try:
        return True, json.loads(text)
    except (ValueError, RecursionError):
        return False, None


def _may_end(before: list[Block]) -> bool:
    """May a final fenced block be a directive, given the blocks before it?"""
    return not before or (len(before) == 1 and isinstance(before[0], Paragraph) and not before[0].is_example)


def _blocks(text: str) -> list[Block]:
    """The top-level blocks of a text."""
    blocks: list[Block] = []
    env: dict[str, Any] = {"code": {}}
    tokens = _commonmark().parse(text, env)
    for at, token in enumerate(tokens):
        if token.level or token.nesting < 0:
            continue
        if token.type == "paragraph_open":
            inline = tokens[at + 1]
            blocks.append(Paragraph(inline.content, env["code"].get(inline.content, [])))
        elif token.type == "fence" and token.info.strip().lower() in ("", "json"):
            blocks.append(token.content)
        else:
            blocks.append(None)
    return blocks


def _json_in_paragraph(paragraph: Paragraph) -> Iterator[FoundJson]:
    text, decoder, at = paragraph.text, json.JSONDecoder(), 0
    for _ in range(MAX_BRACES):
        if (at := text.find("{", at)) < 0:
            return
        if inside := next((end for start, end in paragraph.code if start <= at < end), 0):
            at = inside
            continue
        try:
            value, end = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            at += 1
        else:
            yield FoundJson(value, " ".join((text[:at] + text[end:]).split()))
            at = end


@cache
def _commonmark() -> "MarkdownIt":
    """A CommonMark parser that stores the places of inline code in `env["code"]`."""
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import backtick

    def located(state: "StateInline", silent: bool) -> bool:
        start, known = state.pos, len(state.tokens)
        matched = backtick(state, silent)
        if matched and not silent and any(token.type == "code_inline" for token in state.tokens[known:]):
            state.env["code"].setdefault(state.src, []).append((start, state.pos))
        return matched

    parser = MarkdownIt("commonmark")
    parser.inline.ruler.at("backticks", located)
    return parser
