"""The one field type of secrets at rest: a text that the database only ever sees encrypted."""

from __future__ import annotations

from typing import Any, NoReturn

from django.core.exceptions import FieldError, ValidationError
from django.db import models

from apps.accounts.keyring import is_encrypted, keyring


class EncryptedTextField(models.TextField):  # type: ignore[type-arg]
    """A text, encrypted under `MASTER_KEY` on its way into the database and decrypted on its way out.

    Values are bound to their table and column: one that is copied elsewhere cannot be read there, and a column that is
    renamed needs a migration that encrypts anew. An empty text and None are stored as they are. It is not editable by
    default, which keeps it out of forms; nothing can be looked for in it but whether it is null. `dumpdata` writes the
    encrypted value, and `loaddata` refuses that.

    Loading a row raises keyring.CannotDecrypt where its key is not there or its value was tampered with.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("editable", False)
        super().__init__(*args, **kwargs)

    @property
    def place(self) -> str:
        return f"{self.model._meta.db_table}.{self.column}"

    def get_db_prep_value(self, value: Any, connection: Any, prepared: bool = False) -> Any:
        value = super().get_db_prep_value(value, connection, prepared)
        return keyring().encrypt(value, self.place) if value else value

    def from_db_value(self, value: str | None, expression: Any, connection: Any) -> str | None:
        return keyring().decrypt(value, self.place) if value else value

    def to_python(self, value: Any) -> Any:
        """Raises ValidationError for a text that looks encrypted: nobody gets one decrypted by putting it in again."""
        if isinstance(value, str) and is_encrypted(value):
            raise ValidationError("This is an encrypted value of some database, not the secret itself.")
        return super().to_python(value)

    def get_prep_value(self, value: Any) -> Any:
        return value if value is None else str(value)

    def value_to_string(self, obj: models.Model) -> str:
        value = self.value_from_object(obj)
        return keyring().encrypt(value, self.place) if value else ""

    def get_lookup(self, lookup_name: str) -> Any:
        if lookup_name == "isnull":
            return super().get_lookup(lookup_name)
        return self._refuse_lookup()

    def get_transform(self, lookup_name: str) -> NoReturn:
        self._refuse_lookup()

    def _refuse_lookup(self) -> NoReturn:
        raise FieldError(f"{self.name} is encrypted: nothing can be looked for in it.")
