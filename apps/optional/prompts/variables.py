r"""The variables of a prompt's text, and the text with their values.

    {{topic}}                              required, one line
    {{topic = energy}}                     with a default
    {{notes: long text}}                   several lines
    {{tone: formal | friendly = formal}}   one of these

A variable may stand at several places; one of them says what it takes. `\{{` stands for two braces. Values are never
read as a template themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from django.core.exceptions import ValidationError

from apps.record.content.schema_forms import MOST_FIELDS, Field, fields_of
from apps.record.errors import InvalidFields, InvalidParams
from apps.record.events import JSON

LONG_TEXT = "long text"
MOST_VARIABLES = MOST_FIELDS
MOST_CHOICES = 50
LINE, LONG = 200, 20_000  # characters of a value
PLACE = re.compile(r"\\\{\{|\{\{(.*?)\}\}|\{\{", re.DOTALL)
NAME = re.compile(r"[^\W\d](?:[\w -]{0,38}\w)?\Z")


class WrongTemplate(ValueError):
    """The text cannot be read. The message says what to change."""


@dataclass(frozen=True, slots=True)
class Variable:
    """`default`: None if a value is required. `choices`: () for any text."""

    name: str
    is_long: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None

    @property
    def is_bare(self) -> bool:
        """Whether it says only its name."""
        return self == Variable(self.name)

    @property
    def is_required(self) -> bool:
        return self.default is None

    @property
    def about(self) -> str:
        """What it takes, in a sentence."""
        usual = f"By default {self.default}." if self.default else ""
        takes = f"One of {', '.join(self.choices)}." if self.choices else ""
        return f"{takes} {usual}".strip()

    @property
    def schema(self) -> JSON:
        """What a form draws (`schema_forms`)."""
        shown: JSON = {"type": "string", "title": self.name[:1].upper() + self.name[1:].replace("_", " ")}
        if self.choices:
            shown["enum"] = list(self.choices)
        else:
            shown["maxLength"] = LONG if self.is_long else LINE
        return shown if self.default is None else {**shown, "default": self.default}


@dataclass(frozen=True)
class Template:
    """A parsed text. `pieces`: texts, and names of variables."""

    pieces: tuple[str | Variable, ...]
    variables: tuple[Variable, ...]

    @cached_property
    def fields(self) -> list[Field]:
        """Of the form that asks for the values."""
        properties = {one.name: one.schema for one in self.variables}
        required = [one.name for one in self.variables if one.is_required]
        return fields_of(
            {"name": "values", "schema": {"type": "object", "properties": properties, "required": required}}
        )

    def render(self, values: Mapping[str, str]) -> str:
        """The text with these values, or the defaults. Raises InvalidFields, at `values.NAME`."""
        problems = [
            (f"values.{name}", f"There is no such variable. There are: {', '.join(self._names) or 'none'}.")
            for name in values
            if name not in self._names
        ]
        found = dict[str, str]()
        for field, variable in zip(self.fields, self.variables, strict=True):
            given = values.get(variable.name, "")
            try:
                if not variable.is_long and re.search(r"[\r\n]", given.strip()):
                    raise InvalidParams(f"{field.label}: write one line.")
                value = field.value_of([given])
                found[variable.name] = (variable.default or "") if value is None else value
            except InvalidParams as refused:
                problems.append((f"values.{variable.name}", str(refused)))
        if problems:
            raise InvalidFields(problems)
        return "".join(one if isinstance(one, str) else found[one.name] for one in self.pieces)

    @property
    def _names(self) -> list[str]:
        return [one.name for one in self.variables]


def parse(text: str) -> Template:
    """Raises WrongTemplate."""
    declared = dict[str, Variable]()
    pieces = list(_pieces(text))
    for one in pieces:
        if isinstance(one, Variable):
            before = declared.setdefault(one.name, one)
            if before.is_bare:
                declared[one.name] = one
            elif not one.is_bare and one != before:
                raise WrongTemplate(
                    f"{{{{{one.name}}}}} says two different things. Say them once, and elsewhere only its name."
                )
    if len(declared) > MOST_VARIABLES:
        raise WrongTemplate(f"A prompt has at most {MOST_VARIABLES} variables; this one has {len(declared)}.")
    return Template(tuple(pieces), tuple(declared.values()))


def valid_text(text: str) -> None:
    """The validator of the model field. Raises ValidationError."""
    try:
        parse(text)
    except WrongTemplate as wrong:
        raise ValidationError(str(wrong)) from None


def _pieces(text: str) -> Iterator[str | Variable]:
    end = 0
    for place in PLACE.finditer(text):
        yield text[end : place.start()]
        end = place.end()
        if place[0].startswith("\\"):
            yield "{{"
        elif place[1] is None:
            raise WrongTemplate(f"{_line(text, place.start())}: a variable ends with }}}}. Write \\{{{{ for braces.")
        else:
            try:
                made = _variable(place[1])
            except WrongTemplate as wrong:
                raise WrongTemplate(f"{_line(text, place.start())}, {wrong}") from None
            yield made
    yield text[end:]


def _line(text: str, at: int) -> str:
    return f"Line {text.count(chr(10), 0, at) + 1}"


def _variable(inner: str) -> Variable:
    """Raises WrongTemplate."""
    shown = f"{{{{{inner.strip()[:60]}}}}}"
    declared, has_default, usual = inner.partition("=")
    named, has_kind, takes_kind = declared.partition(":")
    name = re.sub(r"\s+", " ", named.strip())
    if not NAME.match(name):
        raise WrongTemplate(
            f"{shown}: begin with a name of letters, digits, spaces, _ and -, of at most 40 characters."
            " Write \\{{ for braces that are no variable."
        )
    kind = takes_kind.strip() if has_kind else None
    default = usual.strip() if has_default else None
    is_long, choices = kind == LONG_TEXT, _choices(kind or "")
    if kind is not None and not is_long and not 2 <= len(choices) <= MOST_CHOICES:
        takes = f"2 to {MOST_CHOICES} choices separated by |, or: {LONG_TEXT}"
        raise WrongTemplate(f"{shown}: after the colon, write {takes}.")
    if choices and default is not None and default not in choices:
        raise WrongTemplate(f"{shown}: the default must be one of the choices.")
    longest = LONG if is_long else LINE
    if default is not None and (len(default) > longest or ("\n" in default and not is_long)):
        raise WrongTemplate(f"{shown}: the default is one line of at most {LINE} characters, unless it is {LONG_TEXT}.")
    return Variable(name, is_long, choices, default)


def _choices(kind: str) -> tuple[str, ...]:
    """Without repetitions; () for a kind that has none."""
    return tuple(dict.fromkeys(filter(None, (one.strip() for one in kind.split("|"))))) if kind != LONG_TEXT else ()
