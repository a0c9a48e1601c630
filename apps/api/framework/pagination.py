"""Keyset pagination: a cursor names a page's last row, for one caller and one list."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import Field, Model, Q, QuerySet

from apps.accounts.principals import Principal
from apps.record import wire
from apps.record.errors import InvalidFields


def read_cursor(text: str, principal: Principal, *bound: Any) -> list[Any] | None:
    """The place of a cursor; None if empty. `bound` is the list and its filters. Raises InvalidFields."""
    if not text:
        return None
    try:
        return wire.decode_cursor(text, wire.binding("api", principal.sender, *bound))
    except wire.InvalidCursor:
        raise InvalidFields(
            [("cursor", "This cursor is not valid for this list. Start again without a cursor.")]
        ) from None


def write_cursor(place: list[Any], principal: Principal, *bound: Any) -> str:
    """`place`: JSON values in the list's order."""
    return wire.encode_cursor(place, wire.binding("api", principal.sender, *bound))


def paginate[M: Model](
    rows: QuerySet[M], order: tuple[str, ...], asked: dict[str, Any], principal: Principal, *bound: Any
) -> tuple[list[M], str]:
    """A page's rows, and the next page's cursor or "".

    Args:
        order: field names, all ascending or all descending ("-"); the last is unique.
        asked: values of a `serializers.Listing`.

    Raises InvalidFields for another caller's or list's cursor.
    """
    names = [name.lstrip("-") for name in order]
    after = read_cursor(asked["cursor"], principal, *bound)
    if after is not None:
        rows = rows.filter(_rows_after(rows.model, names, after, "lt" if order[0].startswith("-") else "gt"))
    found = list(rows.order_by(*order)[: asked["limit"] + 1])
    shown = found[: asked["limit"]]
    if len(found) == len(shown):
        return shown, ""
    last = [_cursor_value(getattr(shown[-1], name)) for name in names]
    return shown, write_cursor(last, principal, *bound)


def _cursor_value(value: Any) -> Any:
    return value if isinstance(value, int) else value.isoformat() if hasattr(value, "isoformat") else str(value)


def _rows_after(model: type[Model], names: list[str], after: list[Any], way: str) -> Q:
    """The first condition is redundant; with it the database starts in the index."""
    fields = [cast("Field[Any, Any]", model._meta.get_field(name)) for name in names]
    place = [field.to_python(value) for field, value in zip(fields, after, strict=True)]
    first, value = names[0], place[0]
    beyond = Q()
    for at, name in enumerate(names):
        same = Q(**dict(zip(names[:at], place[:at], strict=True)))
        beyond |= same & Q(**{f"{name}__{way}": place[at]})
    return Q(**{f"{first}__{way}e": value}) & beyond
