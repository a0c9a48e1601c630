"""Form fields of JSON columns: words, and editable rows; and lines of text with suggestions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms import Form, Media, Script
from django.forms.formsets import BaseFormSet, formset_factory
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.widgets import UnfoldAdminTextareaWidget, UnfoldAdminTextInputWidget


class WordsField(forms.CharField):
    """Unique words, one a line or comma-separated. Forms of models name it for their JSON columns (`field_classes`)."""

    def __init__(self, *, encoder: None = None, decoder: None = None, **options: Any) -> None:
        options |= {
            "widget": UnfoldAdminTextareaWidget(attrs={"rows": 3, "placeholder": "One per line"}),
            "show_hidden_initial": False,
        }
        super().__init__(**options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        words = value if isinstance(value, list) else re.split(r"[\s,]+", value or "")
        return list(dict.fromkeys(word for word in words if word))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))


class SuggestionsWidget(UnfoldAdminTextInputWidget):
    """A line of text with a list of suggestions, whose id other inputs may name too."""

    def __init__(self, list_id: str, suggestions: Iterable[str] = ()) -> None:
        super().__init__(attrs={"list": list_id, "autocomplete": "off"})
        self.list_id, self.suggestions = list_id, list(suggestions)

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        options = format_html_join("", '<option value="{}">', ((one,) for one in self.suggestions))
        field = super().render(name, value, attrs, renderer)
        return format_html('{}<datalist id="{}">{}</datalist>', field, self.list_id, options)


MOST_ROWS = 100


class Rows(BaseFormSet):  # type: ignore[type-arg]
    """Rows as browsers send them. Ignores unchanged new rows anywhere."""

    def initial_form_count(self) -> int:
        return 0

    def total_form_count(self) -> int:
        return super().total_form_count() if self.is_bound else len(self.initial or []) + 1

    @property
    def values(self) -> list[dict[str, Any]]:
        return [form.cleaned_data for form in self.forms if form.has_changed()]


class RowsWidget(forms.Widget):
    use_fieldset = True

    def __init__(self, row: type[Form], noun: str) -> None:
        super().__init__()
        self.noun = noun
        self.rows = formset_factory(row, formset=Rows, max_num=MOST_ROWS, absolute_max=MOST_ROWS + 1, validate_max=True)

    @property
    def media(self) -> Media:
        return self.rows().media + Media(js=[Script("console/rows.js", type="module")])  # type: ignore[list-item]

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Rows:
        return self.rows(data, prefix=name)  # type: ignore[return-value]

    def value_omitted_from_data(self, data: Any, files: Any, name: str) -> bool:
        return f"{name}-TOTAL_FORMS" not in data

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        rows = value if isinstance(value, Rows) else self.rows(prefix=name, initial=value or [])
        shown = {"rows": rows, "noun": self.noun, "id": (attrs or {}).get("id", "")}
        return render_to_string("admin/console/rows.html", shown)


class RowsField(forms.Field):
    """A list of dicts. `row` is the form of one, `noun` its name for people."""

    def __init__(self, row: type[Form], *, noun: str, **options: Any) -> None:
        super().__init__(widget=RowsWidget(row, noun), required=False, **options)

    def clean(self, value: Rows) -> list[dict[str, Any]]:
        if not value.is_valid():
            raise ValidationError(list(value.non_form_errors()) or "Correct the rows that are marked.")
        return value.values

    def has_changed(self, initial: Any, data: Any) -> bool:
        return not data.is_valid() or bool(data.values != (initial or []))
