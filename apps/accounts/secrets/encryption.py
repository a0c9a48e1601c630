"""Secrets at rest: master keys, the encrypted model field, and re-encryption after a key rotation.

Encrypted text is `aesgcm.<key id>.<URL-safe base64 of nonce, ciphertext and tag>` (AES-256-GCM). Older keys decrypt
while `MASTER_KEY` lists them.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from django.apps import apps
from django.conf import settings
from django.core.exceptions import FieldError, ValidationError
from django.db import models, transaction
from django.db.models.functions import Cast

from parley.misconfigured import MAKE_KEY, Misconfigured

MARK = "aesgcm"
KEY_BYTES = 32
NONCE_BYTES = 12


class CannotDecrypt(Exception):
    """An encrypted value cannot be read."""

    loggable = True


class NoMasterKey(Misconfigured):
    """MASTER_KEY is not 32 bytes in URL-safe base64, and not several such keys with commas between."""

    def __init__(self) -> None:
        advice = f"{MAKE_KEY.format(KEY_BYTES)}. A key that was used before must stay behind it."
        super().__init__(self.__doc__ or "", advice)


class Keyring:
    """Master keys: the first encrypts, all decrypt. Raises NoMasterKey for an invalid key."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise NoMasterKey
        self._ciphers = {_key_id(key): AESGCM(key) for key in keys}
        self.current = _key_id(keys[0])

    @classmethod
    def read(cls, text: str) -> Keyring:
        """The keyring of a `MASTER_KEY`. Raises NoMasterKey."""
        try:
            return cls([_decoded(key.strip()) for key in text.split(",") if key.strip()])
        except ValueError as error:
            raise NoMasterKey from error

    @property
    def current_prefix(self) -> str:
        """The prefix of the first key's ciphertexts."""
        return f"{MARK}.{self.current}."

    def knows(self, key_id: str) -> bool:
        """Can it decrypt what the key of this id encrypted?"""
        return key_id in self._ciphers

    def encrypt(self, text: str, purpose: str) -> str:
        """Encrypt for one `purpose` (such as a column); decryption needs the same."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = self._ciphers[self.current].encrypt(nonce, text.encode(), purpose.encode())
        return self.current_prefix + base64.urlsafe_b64encode(nonce + sealed).decode()

    def decrypt(self, value: str, purpose: str) -> str:
        """The text of an encrypted value. Raises CannotDecrypt."""
        mark, _, rest = value.partition(".")
        key_id, _, content = rest.partition(".")
        if mark != MARK:
            raise CannotDecrypt(f"A value of {purpose} is not encrypted. It was written around the application.")
        if key_id not in self._ciphers:
            raise CannotDecrypt(
                f"A value of {purpose} is encrypted under the master key {key_id}, which MASTER_KEY does not list. "
                "Add that key behind the others."
            )
        try:
            sealed = _decoded(content)
            return self._ciphers[key_id].decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], purpose.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise CannotDecrypt(f"A value of {purpose} was changed, or moved there from another place.") from error


def is_encrypted(value: str) -> bool:
    """Has the text the form of an encrypted value?"""
    return value.startswith(f"{MARK}.")


def key_id_of(value: str) -> str:
    """The id of the master key that encrypted a value."""
    return value.split(".", 2)[1]


def keyring() -> Keyring:
    """The keyring of the settings."""
    return _read_once(settings.MASTER_KEY)


_read_once = cache(Keyring.read)


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)


def _key_id(key: bytes) -> str:
    return hashlib.sha256(b"parley master key" + key).hexdigest()[:8]


class EncryptedTextField(models.TextField):  # type: ignore[type-arg]
    """A text that is encrypted in the database under `MASTER_KEY`; "" and None are stored as they are.

    Values are bound to their table and column: renaming needs a migration that encrypts again. The field is not
    editable by default; only `isnull` can be queried. `dumpdata` writes the ciphertext, which `loaddata` refuses.
    Loading a row raises CannotDecrypt if the key is missing or the value was changed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)

    @property
    def purpose(self) -> str:
        return f"{self.model._meta.db_table}.{self.column}"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        value = super().get_db_prep_value(value, connection, prepared)
        return keyring().encrypt(value, self.purpose) if value else value

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        return keyring().decrypt(value, self.purpose) if value else value

    def to_python(self, value: Any) -> Any:
        """Raises ValidationError for ciphertext: saving it must not decrypt it."""
        if isinstance(value, str) and is_encrypted(value):
            raise ValidationError("This is an encrypted value of some database, not the secret itself.")
        return super().to_python(value)

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None else str(value)

    def value_to_string(self, obj: models.Model) -> str:
        value = self.value_from_object(obj)
        return keyring().encrypt(value, self.purpose) if value else ""

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name == "isnull":
            return super().get_lookup(lookup_name)
        return self._refuse_lookup()

    def get_transform(self, lookup_name: str) -> NoReturn:
        self._refuse_lookup()

    def _refuse_lookup(self) -> NoReturn:
        raise FieldError(f"{self.name} is encrypted: nothing can be looked for in it.")


BATCH_ROWS = 200


@dataclass(slots=True)
class ReencryptionCount:
    """The result of encrypting one column again, or of trying to read it."""

    column: str  # table.column
    renewed: int = 0
    unreadable: int = 0
    reason: str = ""  # of the last unreadable one


def encrypted_fields() -> Iterator[EncryptedTextField]:
    """Every encrypted column of every model."""
    for model in apps.get_models(include_auto_created=True):
        for field in model._meta.local_concrete_fields:
            if isinstance(field, EncryptedTextField):
                yield field


def reencrypt(field: EncryptedTextField) -> ReencryptionCount:
    """Encrypt values of older keys again. It can be interrupted and repeated; values that change meanwhile stay."""
    count, last = ReencryptionCount(field.purpose), None
    while rows := _rows_under_older_keys(field, after=last):
        last = rows[-1][0]
        with transaction.atomic():
            for key, stored in rows:
                _reencrypt_row(field, key, stored, count)
    return count


CHECKED_ROWS = 2_000


def unreadable(field: EncryptedTextField) -> ReencryptionCount:
    """Count which of the newest CHECKED_ROWS values cannot be decrypted. Writes nothing."""
    count = ReencryptionCount(field.purpose)
    rows = _with_ciphertext(field).exclude(stored="").exclude(stored=None).order_by("-pk")
    for stored in rows.values_list("stored", flat=True)[:CHECKED_ROWS]:
        try:
            keyring().decrypt(stored, field.purpose)
        except CannotDecrypt as error:
            count.unreadable, count.reason = count.unreadable + 1, str(error)
    return count


def _with_ciphertext(field: EncryptedTextField) -> models.QuerySet[Any]:
    """The rows, with the column's stored value."""
    return field.model._base_manager.annotate(stored=Cast(models.F(field.name), models.TextField()))


def _rows_under_older_keys(field: EncryptedTextField, *, after: Any) -> list[tuple[Any, str]]:
    older = _with_ciphertext(field).exclude(stored="").exclude(stored=None)
    older = older.exclude(stored__startswith=keyring().current_prefix).order_by("pk")
    if after is not None:
        older = older.filter(pk__gt=after)
    return list(older.values_list("pk", "stored")[:BATCH_ROWS])


def _reencrypt_row(field: EncryptedTextField, key: Any, stored: str, count: ReencryptionCount) -> None:
    try:
        text = keyring().decrypt(stored, field.purpose)
    except CannotDecrypt as error:
        count.unreadable, count.reason = count.unreadable + 1, str(error)
    else:
        count.renewed += _with_ciphertext(field).filter(pk=key, stored=stored).update(**{field.name: text})
