"""SHA-256 of JSON values, the same for the same value wherever it was written."""

import hashlib
import json
from typing import Any

import rfc8785


def digest_of(value: Any) -> str:
    """SHA-256 of the value's canonical JSON (RFC 8785), in hexadecimal.

    That form has no integers beyond 2^53, which JSON has: a value with such numbers is hashed in a plain sorted form.
    """
    try:
        canonical = rfc8785.dumps(value)
    except rfc8785.IntegerDomainError:
        canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    return hashlib.sha256(canonical).hexdigest()
