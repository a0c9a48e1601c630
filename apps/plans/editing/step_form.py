"""The form of a step, made from the JSON Schema of `StepDefinition`: its fields, and the step read from them.

Nested objects, such as `repeat`, are groups of fields; lists of texts have a line each; other values are JSON.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

from apps.accounts.principals import Principal
from apps.agents.models import Agent
from apps.plans.definitions import EXPRESSION, OWN_INPUTS, TEMPLATE, StepDefinition, plan_schema, properties_of
from apps.plans.editing import edits
from apps.plans.person import PERSON
from apps.record.content.schema_forms import Field, field_of, label_of
from apps.record.events import JSON

MOST_AGENTS = 500  # that are offered
FIND, ASK = "?find", "?person"
"""Who does a step besides a named agent. No slug has a question mark."""
ANOTHER = "agent:"  # another agent takes over a failed step
EXCLUSIVE = {"find": FIND, "person": ASK, "message": "agent", "skill": "agent", "approve": "agent"}
"""Fields that are there only for some who do a step: `agent` stands for all but a person."""
LINES = "lines"  # the kind of a list of texts


@cache
def _schema() -> tuple[JSON, JSON]:
    """The properties of a step, and the definitions that they refer to."""
    known = plan_schema()["$defs"]
    return known[StepDefinition.__name__]["properties"], known


def _resolved(schema: JSON) -> JSON:
    """Without references and without `null`, as optional fields have it."""
    others = [one for one in schema.get("anyOf", []) if one.get("type") != "null"]
    if len(others) == 1:
        schema = {**others[0], **{name: value for name, value in schema.items() if name != "anyOf"}}
    if "$ref" in schema:
        found = _schema()[1][str(schema["$ref"]).rpartition("/")[2]]
        schema = {**found, **{name: value for name, value in schema.items() if name != "$ref"}}
    if "description" in schema:  # it is for people here
        schema = {**schema, "description": str(schema["description"]).replace("`", "")}
    return schema


@dataclass(frozen=True)
class StepField:
    """A field of the form. `only_for`: who does the step, for a field that others do not have."""

    field: Field
    only_for: str = ""

    @property
    def format(self) -> str:
        """Of the texts in it: a template, an expression, or neither."""
        schema = self.field.schema
        found = str(schema.get("format") or schema.get("items", {}).get("format", ""))
        return found if found in (TEMPLATE, EXPRESSION) else ""

    @property
    def html_id(self) -> str:
        return "-".join(filter(None, ["field", self.field.group, self.field.name]))

    @property
    def is_set(self) -> bool:
        return "default" in self.field.schema and bool(self.field.schema["default"])


@dataclass(frozen=True)
class StepForm:
    """The form of one step of a definition, which may have problems."""

    content: JSON
    key: str
    agents: Sequence[tuple[str, str]]  # those that may do it: slug, name

    @cached_property
    def step(self) -> JSON:
        found: JSON = self.content["steps"][self.key]
        return found

    @property
    def title(self) -> str:
        return str(self.step.get("title") or self.key.replace("_", " "))

    @cached_property
    def doer(self) -> str:
        return next((sign for name, sign in (("person", ASK), ("find", FIND)) if self.step.get(name)), self._agent)

    @property
    def _agent(self) -> str:
        return str(self.step.get("agent", ""))

    @cached_property
    def fields(self) -> list[StepField]:
        found: list[StepField] = []
        for name, declared in _schema()[0].items():
            schema, only_for = _resolved(declared), EXCLUSIVE.get(name, "")
            if schema.get("type") == "object" and "properties" in schema:
                inner, values = schema["properties"], self.step.get(name)
                values = values if isinstance(values, dict) else {}
                found += [
                    StepField(replace(_field(one, _resolved(given), values), group=name), only_for)
                    for one, given in inner.items()
                ]
            else:
                found.append(StepField(self._own_field(name, schema), only_for))
        return found

    def _own_field(self, name: str, schema: JSON) -> Field:
        if name == "agent":
            others = [] if self._agent in ("", *(slug for slug, _ in self.agents)) else [(self._agent, self._agent)]
            options = [(ASK, "A person"), (FIND, "The agent that fits best"), *self.agents, *others]
            return _chosen(name, {**schema, "title": "Who does it"}, options, self.doer)
        if name == "on_failure":
            given = self.step.get(name, "fail")
            given = f"{ANOTHER}{given.get('agent', '')}" if isinstance(given, dict) else str(given)
            ways = [("fail", "The plan fails"), ("skip", "Go on without it"), ("ask", "Ask a person")]
            options = [*ways, *((f"{ANOTHER}{slug}", f"{label} takes over") for slug, label in self.agents)]
            if given not in dict(options):
                options.append((given, given))
            return _chosen(name, schema, options, given)
        if name == "depends_on":
            steps = [(key, self._title_of(key)) for key in self.earlier]
            items = {"oneOf": [{"const": key, "title": title} for key, title in steps]}
            chosen = [key for key in self._named if key in dict(steps)]
            return Field(name, "choices", label_of(name, schema), {**schema, "items": items, "default": chosen}, False)
        return _field(name, schema, self.step)

    @property
    def _named(self) -> list[Any]:
        found = self.step.get("depends_on")
        return found if isinstance(found, list) else []

    @cached_property
    def earlier(self) -> list[str]:
        """The steps that may come before it: all that do not wait for it."""
        later = edits.later_steps(self.content, self.key)
        return [key for key in self.content["steps"] if key not in later]

    @property
    def used(self) -> list[str]:
        """The titles of the steps that its templates use: it runs after them anyway."""
        return [self._title_of(key) for key in sorted(edits.needs_of(self.content)[self.key] - set(self._named))]

    def _title_of(self, key: str) -> str:
        return str(self.content["steps"][key].get("title") or key.replace("_", " "))

    @property
    def main_fields(self) -> list[StepField]:
        return self.fields[: self._middle]

    @property
    def more_fields(self) -> list[StepField]:
        return self.fields[self._middle :]

    @property
    def has_more(self) -> bool:
        names = {one.field.group or one.field.name for one in self.more_fields}
        return not names.isdisjoint(self.step)

    @cached_property
    def _middle(self) -> int:
        return next(at for at, one in enumerate(self.fields) if one.field.name == "depends_on") + 1

    @property
    def insertions(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """What templates can use, in groups: label and expression."""
        schema = self.content.get("inputs")
        stated = properties_of(schema) if isinstance(schema, dict) else {}
        own = dict(zip(OWN_INPUTS, ("The message’s text", "The message’s files"), strict=True))
        labels = own | {name: label_of(name, one if isinstance(one, dict) else {}) for name, one in stated.items()}
        groups = [("Inputs", [(label, f"inputs.{name}") for name, label in labels.items()])]
        for key in self.earlier:
            what = (("answer", "text"), ("data", "data"), ("files", "artifacts"))
            title = self._title_of(key)
            groups.append((title, [(f"{title}: {word}", f"steps.{key}.{name}") for word, name in what]))
        if self.step.get("for_each"):
            groups.append(("This item", [("The item", "item"), ("Its number, from 0", "index")]))
        return groups

    def values_from(self, given: Mapping[str, Sequence[str]]) -> JSON:
        """The fields of the step as `edits.change` takes them. Raises InvalidParams at a field."""
        doer = ([*given.get("answer-agent", ()), self.doer])[0]
        found: JSON = {}
        for one in self.fields:
            value = _value(one.field, given)
            if one.field.group:
                inner = found.setdefault(one.field.group, {})
                inner |= {} if value is None else {one.field.name: value}
            else:
                found[one.field.name] = value
        return {name: value or None for name, value in (found | self._by(doer, found)).items()}

    def _by(self, doer: str, found: JSON) -> JSON:
        """The fields that say who does it. What one was told, the next is told."""
        asked = found["person"].get("ask") or ""
        on_failure = found["on_failure"] or "fail"
        another = {"agent": on_failure.removeprefix(ANOTHER)} if on_failure.startswith(ANOTHER) else on_failure
        by: JSON = {"agent": None, "find": None, "person": None, "on_failure": None if another == "fail" else another}
        if doer == ASK:
            person = found["person"] | {"ask": asked or found["message"] or f"{self.title}?"}
            return by | {"person": person, "message": None, "skill": None, "approve": None}
        by["message"] = found["message"] or asked or f"{self.title}."
        return by | ({"find": found["find"] or self.title} if doer == FIND else {"agent": doer})


def _chosen(name: str, schema: JSON, options: Sequence[tuple[str, str]], value: str) -> Field:
    choices = [{"const": one, "title": label} for one, label in options]
    known: JSON = {word: schema[word] for word in ("title", "description") if word in schema}
    return Field(name, "choice", _label(name, known), {**known, "oneOf": choices, "default": value}, False)


def _field(name: str, schema: JSON, values: JSON) -> Field:
    """The field with its value in the step, or the schema's default."""
    schema = dict(schema)
    if name in values:
        schema["default"] = values[name]
    elif schema.get("default") is None:
        schema.pop("default", None)
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, dict) and items.get("type") == "string":
        given = schema.get("default")
        lines = "\n".join(map(str, given)) if isinstance(given, list) else str(given or "")
        return Field(name, LINES, _label(name, schema), {**schema, "default": lines}, False)
    field = field_of(name, schema, required=False)
    if field is None or field.kind == "choices":
        return Field(name, "json", _label(name, schema), {} if not schema.get("default") else schema, False)
    if schema.get("format") == TEMPLATE:
        field = replace(field, kind="long-text")
    return replace(field, label=_label(name, schema))


def _label(name: str, schema: JSON) -> str:
    """Pydantic makes titles of names, with capitals."""
    title = str(schema.get("title", ""))
    return label_of(name, {}) if title.lower() == name.replace("_", " ") else title or label_of(name, {})


def _value(field: Field, given: Mapping[str, Sequence[str]]) -> Any:
    """None for what is left out, or as the default."""
    texts = given.get(field.html_name, ())
    if field.kind == LINES:
        return [line.strip() for text in texts for line in text.splitlines() if line.strip()] or None
    if not any(text.strip() for text in texts):
        return None
    # A group's fields keep their defaults in `value_of`; here each text says what it says.
    value = replace(field, group="").value_of([text.replace("\r\n", "\n") for text in texts])
    declared = _resolved(_schema()[0].get(field.group or field.name, {}))
    if field.group:
        declared = _resolved(declared.get("properties", {}).get(field.name, {}))
    return None if value == declared.get("default") and value is not True else value


def agents_for(principal: Principal) -> list[tuple[str, str]]:
    """The agents that the caller's steps may name: slug and name."""
    found = Agent.objects.visible_to(principal).exclude(slug=PERSON).order_by("name", "slug")
    return list(found.values_list("slug", "name")[:MOST_AGENTS])


def step_form(text: str, key: str, principal: Principal) -> StepForm:
    """The form of a step; of the first one if there is no such step. Raises InvalidParams for an unreadable text."""
    content = edits.content_of(text)
    return StepForm(
        content, key if key in content["steps"] else next(iter(content["steps"]), ""), agents_for(principal)
    )
