"""The form that starts a plan: a field for each of its inputs, by their JSON Schema; JSON for what is nested."""

from __future__ import annotations

import uuid
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from unfold.widgets import (
    UnfoldAdminDecimalFieldWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminSelectWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from apps.plans.definitions import PlanDefinition
from apps.plans.inputs import OWN_INPUTS
from apps.plans.schemas import properties_of
from apps.record import strict_json

JSON = dict[str, Any]
PREFIX = "input-"  # so that no input is called like a field of the form
LONG = 200  # characters of a text from which on it gets several lines


class StrictJsonField(forms.JSONField):
    """JSON that can be kept: no NaN, no U+0000, not nested too deeply. It is shown again as it was written."""

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        try:
            return strict_json.storable(strict_json.read(str(value).encode(errors="replace")))
        except strict_json.NotStrict as problem:
            raise ValidationError(str(problem).replace("The body", "It"), code="invalid") from None
        except ValueError as problem:
            raise ValidationError(str(problem), code="invalid") from None

    def bound_data(self, data: Any, initial: Any) -> Any:
        return None if data is None else InvalidJSONInput(data)


class StartForm(forms.Form):
    """`key` is the id of the message, so that pressing twice starts the plan once."""

    text = forms.CharField(
        label="Message",
        required=False,
        widget=UnfoldAdminTextareaWidget(attrs={"rows": 2}),
        help_text="What the plan knows as inputs.text.",
    )
    key = forms.UUIDField(widget=forms.HiddenInput)

    def __init__(self, definition: PlanDefinition, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.initial["key"] = uuid.uuid4()
        required = definition.inputs.get("required", [])
        for name, schema in properties_of(definition.inputs).items():
            if name not in OWN_INPUTS:
                about = schema if isinstance(schema, dict) else {}
                self.fields[f"{PREFIX}{name}"] = _field(name, about, name in required and "default" not in about)
        self.order_fields([*(name for name in self.fields if name.startswith(PREFIX)), "text", "key"])

    @property
    def inputs(self) -> JSON:
        """What was filled in."""
        filled = ((name, value) for name, value in self.cleaned_data.items() if name.startswith(PREFIX))
        return {name.removeprefix(PREFIX): value for name, value in filled if value not in (None, "")}

    def complain(self, path: str, sentence: str) -> None:
        """Say at the field of a path such as `inputs.city` what is wrong."""
        field = PREFIX + path.removeprefix("inputs.").partition(".")[0]
        self.add_error(
            field if field in self.fields else None, sentence if field in self.fields else f"{path}: {sentence}"
        )


def _field(name: str, schema: JSON, required: bool) -> forms.Field:
    about: JSON = {
        "label": schema.get("title") or name.replace("_", " ").capitalize(),
        "help_text": schema.get("description", ""),
        "initial": schema.get("default"),
        "required": required,
    }
    match schema:
        case {"enum": list(choices)} if all(isinstance(one, str) for one in choices):
            empty = [] if required else [("", "–")]
            options = [*empty, *((one, one) for one in choices)]
            return forms.ChoiceField(choices=options, widget=UnfoldAdminSelectWidget, **about)
        case {"type": "string"}:
            is_long = schema.get("maxLength", 0) > LONG
            widget = UnfoldAdminTextareaWidget(attrs={"rows": 4}) if is_long else UnfoldAdminTextInputWidget()
            return forms.CharField(widget=widget, **about)
        case {"type": "integer"}:
            return forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, **about)
        case {"type": "number"}:
            return forms.FloatField(widget=UnfoldAdminDecimalFieldWidget, **about)
        case {"type": "boolean"}:
            return forms.BooleanField(widget=UnfoldBooleanWidget, **{**about, "required": False})
    about["help_text"] = f"{about['help_text']} As JSON.".strip()
    return StrictJsonField(widget=UnfoldAdminTextareaWidget(attrs={"rows": 4, "spellcheck": "false"}), **about)
