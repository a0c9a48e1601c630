"""What JSON cannot say comes in nowhere: from agents, plans' code, YAML and forms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django import forms

from apps.engine.output import clean
from apps.plans.definitions import InvalidYaml, read_yaml
from apps.record.content import strict_json

VALUES = [float("inf"), float("-inf"), float("nan"), {"a": [float("inf")]}, {"a": {1, 2}}, b"bytes"]
TEXTS = ["1e999", "[-Infinity]", '{"a": NaN}']


@pytest.mark.parametrize("way", [strict_json.to_storable, clean])
@pytest.mark.parametrize("value", VALUES)
def test_values_that_json_lacks_are_refused(way: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        way(value)


@pytest.mark.parametrize("way", [strict_json.read, strict_json.FormField().clean])
@pytest.mark.parametrize("text", TEXTS)
def test_texts_of_such_values_are_refused(way: Callable[[str], Any], text: str) -> None:
    with pytest.raises((ValueError, forms.ValidationError)):
        way(text)


@pytest.mark.parametrize("text", ["limit: 1e999", "limit: !!float .inf", "limit: !!float .nan"])
def test_yaml_has_no_infinite_numbers(text: str) -> None:
    with pytest.raises(InvalidYaml):
        read_yaml(text)
