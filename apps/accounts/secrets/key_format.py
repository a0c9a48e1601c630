"""The text of an API key: `parley_<prefix>_<secret><checksum>`, so that scanners find leaked keys without asking us.

The checksum is the CRC-32 of all before it, in six digits of base 62. Keys of earlier releases have none.
"""

from __future__ import annotations

import re
import secrets
import string
import zlib

MARK = "parley"
PATTERN = re.compile(rf"{MARK}_[0-9a-f]{{12}}_[A-Za-z0-9_-]{{43}}[0-9A-Za-z]{{6}}(?![A-Za-z0-9_-])", re.ASCII)
OLD_PATTERN = re.compile(rf"{MARK}_[0-9a-f]{{12}}_[A-Za-z0-9_-]{{43}}(?![A-Za-z0-9_-])", re.ASCII)
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
CHECKSUM_LENGTH = 6


def new_secret(prefix: str) -> str:
    """A random secret and its checksum, for the key with this prefix."""
    secret = secrets.token_urlsafe(32)
    return secret + checksum_of(f"{MARK}_{prefix}_{secret}")


def checksum_of(text: str) -> str:
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(CHECKSUM_LENGTH):
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def texts_of_keys(text: str) -> list[str]:
    """The keys in a text. What has a wrong checksum is none."""
    new = [key for key in PATTERN.findall(text) if checksum_of(key[:-CHECKSUM_LENGTH]) == key[-CHECKSUM_LENGTH:]]
    return [*new, *OLD_PATTERN.findall(text)]
