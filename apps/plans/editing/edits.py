"""The edits of a plan's definition that its picture offers, a function each.

They change the JSON of a definition, which may have problems: people correct these step by step. Each gives the key of
the step to show then; "" means none. Raises InvalidParams with a sentence for the person.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pydantic
from django.core.exceptions import ValidationError

from apps.plans import graphs
from apps.plans.definitions import InvalidYaml, PlanDefinition, StepDefinition, check_size, read_yaml
from apps.plans.editing import texts
from apps.record.errors import InvalidParams
from apps.record.events import JSON

UNREADABLE = "The text of the definition cannot be read. Correct it, or undo your last change."
KEY = re.compile(r"[a-z][a-z0-9_]{0,62}")
SPOKEN = re.compile(r"{[{%].*?(?:[%}]}|\Z)", re.DOTALL)  # what a template says besides its text
NEW_STEP = "step"

type Values = Mapping[str, Any]
"""What an edit is given: the fields of its form."""


class Edited(NamedTuple):
    text: str
    step: str


def apply(text: str, edit: str, step: str, values: Values) -> Edited:
    """The text of a definition after an edit of `EDITS` at a step. Raises InvalidParams."""
    if edit not in EDITS:
        raise InvalidParams("This editor has no such edit. Reload the page.", "do")
    _check_size(text)
    content = content_of(text)
    if step not in content["steps"]:
        raise InvalidParams("This step is not in the plan any more. Choose another one.", "step")
    changed = copy.deepcopy(content)
    shown = EDITS[edit](changed, step, values)
    renamed = {shown: step} if edit == "rename" else {}
    made = texts.rewrite(text, changed, renamed)
    _check_size(made)
    return Edited(made, shown)


def _check_size(text: str) -> None:
    """Raises InvalidParams."""
    try:
        check_size(text)
    except ValidationError as error:
        raise InvalidParams(" ".join(error.messages)) from None


def content_of(text: str) -> JSON:
    """The JSON of a definition whose steps are mappings. Raises InvalidParams."""
    try:
        content = read_yaml(text)
    except InvalidYaml as error:
        raise InvalidParams(f"{UNREADABLE} {error}") from None
    steps = content.get("steps") if isinstance(content, dict) else None
    if not isinstance(steps, dict) or not all(isinstance(one, dict) for one in steps.values()):
        raise InvalidParams(UNREADABLE)
    return dict(content)


def needs_of(content: JSON) -> dict[str, set[str]]:
    """By step, the steps that it waits for, as far as they can be read."""
    steps: dict[str, StepDefinition] = {}
    for key, step in content["steps"].items():
        with suppress(pydantic.ValidationError):
            steps[key] = StepDefinition.model_validate(step)
    known = graphs.dependencies(PlanDefinition.model_construct(steps=steps), skip_invalid=True)
    return {key: known.get(key, set(_named(step))) & content["steps"].keys() for key, step in content["steps"].items()}


def later_steps(content: JSON, key: str) -> set[str]:
    """The step itself and those that wait for it, directly or not."""
    needs, reached = needs_of(content), {key}
    while more := {one for one in needs.keys() - reached if not reached.isdisjoint(needs[one])}:
        reached |= more
    return reached


def _named(step: JSON) -> list[str]:
    found = step.get("depends_on")
    return [one for one in found if isinstance(one, str)] if isinstance(found, list) else []


def _wait_for(step: JSON, keys: Sequence[str]) -> None:
    """Sets `depends_on`; leaves it out if there is nothing to wait for."""
    step.pop("depends_on", None)
    if keys:
        step["depends_on"] = list(dict.fromkeys(keys))


def _free_key(content: JSON, wanted: str) -> str:
    names = (wanted[: 63 - len(ending)] + ending for ending in ("", *(f"_{number}" for number in range(2, 10_000))))
    return next(name for name in names if name not in content["steps"])


def _put(content: JSON, key: str, step: JSON, beside: str, *, before: bool = False) -> None:
    """Adds a step next to another one in the order of the definition."""
    steps: JSON = {}
    for name, one in content["steps"].items():
        pair = {key: step, name: one} if before else {name: one, key: step}
        steps |= pair if name == beside else {name: one}
    content["steps"] = steps


def _new_step(content: JSON, values: Values, words: str) -> tuple[str, JSON]:
    return _free_key(content, NEW_STEP), {"title": "New step", "agent": str(values["agent"]), "message": words}


def _result_of(content: JSON, key: str) -> str:
    """A template that gives what a step says."""
    is_list = bool(content["steps"][key].get("for_each"))
    return f"{{{{ steps.{key} | map(attribute='text') | join(' ') }}}}" if is_list else f"{{{{ steps.{key}.text }}}}"


def add_after(content: JSON, step: str, values: Values) -> str:
    """A step that uses the result of this one: a further branch, if others use it too."""
    key, made = _new_step(content, values, _result_of(content, step))
    _put(content, key, made, step)
    return key


def add_between(content: JSON, step: str, values: Values) -> str:
    """A step after this one, for which all wait that wait for this one."""
    waiting = [one for one, needed in needs_of(content).items() if step in needed]
    key = add_after(content, step, values)
    for one in waiting:
        named = [key if other == step else other for other in _named(content["steps"][one])]
        _wait_for(content["steps"][one], [*named, key])
    return key


def add_before(content: JSON, step: str, values: Values) -> str:
    """A step for which this one waits, and which waits for what this one named."""
    key, made = _new_step(content, values, "{{ inputs.text }}")
    anchor = content["steps"][step]
    _wait_for(made, _named(anchor))
    _wait_for(anchor, [key])
    _put(content, key, made, step, before=True)
    return key


def add_beside(content: JSON, step: str, values: Values) -> str:
    """A step that runs at the same time, after the same steps."""
    needed = sorted(needs_of(content)[step])
    words = " ".join(_result_of(content, one) for one in needed) or "{{ inputs.text }}"
    key, made = _new_step(content, values, words)
    _put(content, key, made, step)
    return key


def change(content: JSON, step: str, values: Values) -> str:
    """Sets the fields of the step; None leaves a field out."""
    old = content["steps"][step]
    kept = {name: values.get(name, value) for name, value in old.items()}
    made = kept | {name: value for name, value in values.items() if name not in old}
    content["steps"][step] = {name: value for name, value in made.items() if value is not None}
    return step


def rename(content: JSON, step: str, values: Values) -> str:
    """Gives the step another key, everywhere."""
    key = str(values.get("key", "")).strip()
    if not KEY.fullmatch(key):
        raise InvalidParams("Use lowercase letters, digits and `_`, starting with a letter, at most 63.", "key")
    if key == step:
        return step
    if key in content["steps"]:
        raise InvalidParams("Another step has this key. Choose another one.", "key")
    content["steps"] = {key if name == step else name: one for name, one in content["steps"].items()}
    for one in content["steps"].values():
        _rename_in(one, step, key)
    if isinstance(content.get("outputs"), list):
        content["outputs"] = [key if one == step else one for one in content["outputs"]]
    return key


def _rename_in(step: JSON, old: str, new: str) -> None:
    if old in (named := _named(step)):
        step["depends_on"] = [new if one == old else one for one in named]
    spoken = re.compile(rf"\bsteps(?:\.{re.escape(old)}\b|\[(['\"]){re.escape(old)}\1\])")

    def renamed(text: str) -> str:
        return spoken.sub(f"steps.{new}", text)

    for holder, name, is_expression in _templates(step):
        holder[name] = renamed(holder[name]) if is_expression else SPOKEN.sub(lambda at: renamed(at[0]), holder[name])


def _templates(step: JSON) -> Iterator[tuple[Any, Any, bool]]:
    """Where a step has templates and expressions: holder, name, and whether it is an expression."""
    person, repeat, attach = (step.get(name) for name in ("person", "repeat", "attach"))
    places: list[tuple[Any, Any, bool]] = [(step, "message", False), (step, "when", True), (step, "for_each", True)]
    places += [(person, "ask", False)] if isinstance(person, dict) else []
    places += [(repeat, "until", True)] if isinstance(repeat, dict) else []
    places += [(attach, number, True) for number in range(len(attach))] if isinstance(attach, list) else []
    for holder, name, is_expression in places:
        value = holder[name] if isinstance(holder, list) else holder.get(name)
        if isinstance(value, str):
            yield holder, name, is_expression


def delete(content: JSON, step: str, values: Values) -> str:
    """Takes the step out. Those that named it wait for what it waited for; templates that use it are problems then."""
    if len(content["steps"]) == 1:
        raise InvalidParams("A plan has at least one step. Change this one instead.")
    needed = sorted(needs_of(content)[step])
    order = list(content["steps"])
    del content["steps"][step]
    for one in content["steps"].values():
        if step in (named := _named(one)):
            _wait_for(one, [other for name in named for other in (needed if name == step else [name])])
    if isinstance(outputs := content.get("outputs"), list):
        content["outputs"] = [one for one in outputs if one != step]
        if not content["outputs"]:
            del content["outputs"]
    at = order.index(step)
    return str(order[at - 1] if at else order[1])


def duplicate(content: JSON, step: str, values: Values) -> str:
    key = _free_key(content, step)
    _put(content, key, copy.deepcopy(content["steps"][step]), step)
    return key


def move_up(content: JSON, step: str, values: Values) -> str:
    """Earlier in the order of the definition, which is the order of lists and of steps that could start at once."""
    return _move(content, step, -1)


def move_down(content: JSON, step: str, values: Values) -> str:
    return _move(content, step, 1)


def _move(content: JSON, step: str, by: int) -> str:
    order = list(content["steps"])
    at = order.index(step)
    if not 0 <= at + by < len(order):
        raise InvalidParams("The step is already at this end of the plan.")
    order[at], order[at + by] = order[at + by], order[at]
    content["steps"] = {key: content["steps"][key] for key in order}
    return step


def connect(content: JSON, step: str, values: Values) -> str:
    """The step `to` waits for this one."""
    to = str(values.get("to", ""))
    if to not in content["steps"]:
        raise InvalidParams("Draw the line to another step.", "to")
    if step in later_steps(content, to):
        raise InvalidParams("This step already runs after that one, so they would wait for each other.", "to")
    if step not in needs_of(content)[to]:
        _wait_for(content["steps"][to], [*_named(content["steps"][to]), step])
    return to


EDITS: dict[str, Callable[[JSON, str, Values], str]] = {
    one.__name__: one
    for one in (
        add_after, add_between, add_before, add_beside, change, rename, delete, duplicate, move_up, move_down, connect,
    )
}  # fmt: skip
