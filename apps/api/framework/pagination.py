"""Lists, page by page: a cursor names the last row of the page before, and is of use to its caller and list alone."""

from __future__ import annotations

from typing import Any, cast

from django.db.models import Field, Model, Q, QuerySet

from apps.accounts.principals import Principal
from apps.record import wire
from apps.record.errors import InvalidFields


def read_cursor(text: str, principal: Principal, *bound: Any) -> list[Any] | None:
    """Where a list goes on, by the cursor that came; None of an empty one, with which it begins.

    `bound` tells this list, with its filters, from others. Raises InvalidFields.
    """
    if not text:
        return None
    try:
        return wire.decode_cursor(text, wire.binding("api", principal.sender, *bound))
    except wire.InvalidCursor:
        raise InvalidFields([("cursor", "Is none that this list gave you. Begin again without one.")]) from None


def write_cursor(place: list[Any], principal: Principal, *bound: Any) -> str:
    """The cursor of a place in a list: JSON values, in the list's order."""
    return wire.encode_cursor(place, wire.binding("api", principal.sender, *bound))


def paginate[M: Model](
    rows: QuerySet[M], order: tuple[str, ...], asked: dict[str, Any], principal: Principal, *bound: Any
) -> tuple[list[M], str]:
    """The rows of a page, and the cursor of the next one or "".

    `order` names fields, each with "-" in front or none of them, of which the last tells all rows apart; `asked` is of
    a `serializers.Listing`. Raises InvalidFields for a cursor of another caller or list.
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
    """A value of a row as a cursor carries it."""
    return value if isinstance(value, int) else value.isoformat() if hasattr(value, "isoformat") else str(value)


def _rows_after(model: type[Model], names: list[str], after: list[Any], way: str) -> Q:
    """What comes after a row. Its first condition is implied; it lets an index begin at the right place."""
    fields = [cast("Field[Any, Any]", model._meta.get_field(name)) for name in names]
    place = [field.to_python(value) for field, value in zip(fields, after, strict=True)]
    first, value = names[0], place[0]
    beyond = Q()
    for at, name in enumerate(names):
        same = Q(**dict(zip(names[:at], place[:at], strict=True)))
        beyond |= same & Q(**{f"{name}__{way}": place[at]})
    return Q(**{f"{first}__{way}e": value}) & beyond
