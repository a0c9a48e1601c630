"""The master keys of this installation, and texts encrypted under them (AES-256-GCM).

An encrypted text is `aesgcm.<key id>.<URL-safe base64 of nonce, ciphertext and tag>`. The key id names the master key
and says nothing about it, so that values of an older key can be read for as long as `MASTER_KEY` still lists it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Sequence
from functools import cache

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

MARK = "aesgcm"
KEY_BYTES = 32
NONCE_BYTES = 12


class CannotDecrypt(Exception):
    """A value that was encrypted cannot be read."""


class NoMasterKey(ImproperlyConfigured):
    """MASTER_KEY must hold 32 bytes in URL-safe base64, or several such keys with commas between, the newest first."""

    def __str__(self) -> str:
        return self.__doc__ or ""


class Keyring:
    """Master keys: the first one encrypts, all of them decrypt. Raises NoMasterKey for a key that is none."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise NoMasterKey
        self._ciphers = {_id_of(key): AESGCM(key) for key in keys}
        self.current = _id_of(keys[0])

    @classmethod
    def read(cls, text: str) -> Keyring:
        """The keyring that `MASTER_KEY` writes. Raises NoMasterKey."""
        try:
            return cls([_decoded(key.strip()) for key in text.split(",") if key.strip()])
        except ValueError as error:
            raise NoMasterKey from error

    @property
    def current_prefix(self) -> str:
        """How texts begin that are encrypted under the first key."""
        return f"{MARK}.{self.current}."

    def encrypt(self, text: str, place: str) -> str:
        """The text, encrypted for one `place` (such as a table's column): it can be decrypted for no other."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = self._ciphers[self.current].encrypt(nonce, text.encode(), place.encode())
        return self.current_prefix + base64.urlsafe_b64encode(nonce + sealed).decode()

    def decrypt(self, value: str, place: str) -> str:
        """The text of an encrypted value. Raises CannotDecrypt, which says why and never what."""
        mark, _, rest = value.partition(".")
        key_id, _, content = rest.partition(".")
        if mark != MARK:
            raise CannotDecrypt(f"A value of {place} is not encrypted. It was written around the application.")
        if key_id not in self._ciphers:
            raise CannotDecrypt(
                f"A value of {place} is encrypted under the master key {key_id}, which MASTER_KEY does not list. "
                "Add that key behind the others."
            )
        try:
            sealed = _decoded(content)
            return self._ciphers[key_id].decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], place.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise CannotDecrypt(f"A value of {place} was changed, or moved there from another place.") from error


def is_encrypted(value: str) -> bool:
    """Has the text the form of an encrypted value?"""
    return value.startswith(f"{MARK}.")


def keyring() -> Keyring:
    """The keyring of the settings."""
    return _read_once(settings.MASTER_KEY)


_read_once = cache(Keyring.read)


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _id_of(key: bytes) -> str:
    return hashlib.sha256(b"parley master key" + key).hexdigest()[:8]
