"""What JSON cannot say comes in nowhere: from agents, plans' code, YAML and forms."""

from __future__ import annotations

import hashlib
import json

import pytest
import rfc8785
from django import forms
from hypothesis import given
from hypothesis import strategies as st

from apps.engine.turns.output import clean
from apps.plans.definitions import InvalidYaml, read_yaml
from apps.record.content import strict_json

VALUES = [float("inf"), float("-inf"), float("nan"), {"a": [float("inf")]}, {"a": {1, 2}}, b"bytes"]
TEXTS = ["1e999", "[-Infinity]", '{"a": NaN}']


@pytest.mark.parametrize("way", [strict_json.to_storable, clean])
@pytest.mark.parametrize("value", VALUES)
def test_values_that_json_lacks_are_refused(way, value):
    with pytest.raises(ValueError, match="cannot be sent"):
        way(value)
    with pytest.raises(ValueError, match="too large"):
        way({"id": 10**309})


@pytest.mark.parametrize(
    ("way", "texts", "error"),
    [
        (strict_json.read, TEXTS, ValueError),
        (strict_json.FormField().clean, TEXTS, forms.ValidationError),
        (read_yaml, ["limit: 1e999", "limit: !!float .inf", "limit: !!float .nan"], InvalidYaml),
    ],
)
def test_texts_of_such_values_are_refused(way, texts, error):
    for text in texts:
        with pytest.raises(error):
            way(text)


DENSE = b'{"b":[[[[[[1]]]]]]}'
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
)


def test_too_many_values_are_refused_by_their_number():
    with pytest.raises(strict_json.InvalidJSON, match="more than 100 values"):
        strict_json.parse(b"[" + b",".join([DENSE] * 20) + b"]", 100)


@pytest.mark.parametrize("depth", [64, 65])
def test_depth_counts_across_long_texts(depth, settings):
    settings.MAX_JSON_DEPTH = 64
    body = b'["' + b"x" * 100_000 + b'",' + b"[" * (depth - 1) + b"]" * depth
    if depth == 64:
        strict_json.parse(body)
    else:
        with pytest.raises(strict_json.InvalidJSON, match="nested deeper"):
            strict_json.parse(body)


@pytest.mark.parametrize("number", [8202522731445525542, -(2**53) - 1, 2**64, 10**307])
def test_whole_numbers_keep_their_digits(number):
    assert strict_json.read(json.dumps({"id": number})) == {"id": number}
    assert strict_json.FormField().clean(json.dumps([number])) == [number]
    assert strict_json.to_storable({"id": [number]}) == {"id": [number]}
    assert strict_json.digest_of(number) != strict_json.digest_of(number + 1)


@given(JSON)
def test_a_digest_is_of_the_canonical_form(value):
    assert strict_json.canonical(value) == rfc8785.dumps(value)
    assert strict_json.digest_of(value) == hashlib.sha256(rfc8785.dumps(value)).hexdigest()
