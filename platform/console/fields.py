"""Form fields for JSON columns that hold a list of words."""

import re
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextareaWidget


class WordsField(forms.CharField):
    """A list of words, written one to a line (or with commas), each once."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("widget", UnfoldAdminTextareaWidget(attrs={"rows": 3}))
        super().__init__(**options)

    def prepare_value(self, value: Any) -> Any:
        return "\n".join(value) if isinstance(value, list) else value

    def to_python(self, value: Any) -> Any:
        words = value if isinstance(value, list) else re.split(r"[\s,]+", value or "")
        return list(dict.fromkeys(word for word in words if word))

    def has_changed(self, initial: Any, data: Any) -> bool:
        return bool((initial or []) != self.to_python(data))
