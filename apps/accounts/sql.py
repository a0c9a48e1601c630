"""Hand-written queries for authentication."""

from __future__ import annotations

from apps.accounts.models import ApiKey, User
from db.sql import Query


def _key_with_user(key: ApiKey, user: User) -> ApiKey:
    key.user = user
    return key


KEY_BY_PREFIX = Query(
    "SELECT {api_key}, {person} FROM {api_key.table} JOIN {person.table} ON person.id = api_key.user_id "
    "WHERE api_key.prefix = %s",
    _key_with_user,
    api_key=ApiKey,
    person=User,
)
