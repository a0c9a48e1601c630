"""What an agent says is data: strings that no database takes are mended, values that are no JSON are refused."""

import math
import re
from typing import Any

UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def clean[T](value: T) -> T:
    """The value with U+0000 and lone surrogates replaced by U+FFFD. Raises ValueError for what JSON cannot say."""
    return _clean(value)  # type: ignore[no-any-return]


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_clean(str(name)): _clean(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(inner) for inner in value]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError("NaN and infinity cannot be sent: JSON has no such numbers.")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ValueError(f"A {type(value).__name__} cannot be sent: use text, numbers, lists, dicts and None.")
