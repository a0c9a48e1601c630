"""What changed in all of one's sessions since a position: created, updated and deleted ones, and the next position."""

from __future__ import annotations

from rest_framework import serializers

from apps.accounts.principals import Principal
from apps.api.fields import Shape
from apps.api.shapes import sessions_json
from apps.api.shapes.declared import SessionShape
from apps.api.shapes.naming import JSON
from apps.record import sync_cursors
from apps.record.sync_cursors import PositionTooOld


class SessionsPage(Shape):
    """A page of sessions; or, after `since`, what changed."""

    items = SessionShape(many=True)
    next_cursor = serializers.CharField(help_text="For the next page; empty on the last one.")
    token = serializers.CharField(
        help_text="For `since`: what changes from before this page was read on; empty but on the first page."
    )
    created = serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text="After `since`: which of the items are new."
    )
    deleted = serializers.ListField(
        child=serializers.UUIDField(), required=False, help_text="After `since`: sessions that are gone."
    )
    more = serializers.BooleanField(required=False, help_text="After `since`: ask again with the new token at once.")
    reset = serializers.BooleanField(
        required=False, help_text="After `since`: that is too long ago. List everything anew, without it."
    )


def changes_json(principal: Principal, since: str, limit: int) -> JSON:
    """Raises InvalidParams for a token that is not the caller's."""
    try:
        found = sync_cursors.changed(principal, sync_cursors.position_of(principal, since), limit)
    except PositionTooOld:
        return {"items": [], "nextCursor": "", "token": "", "created": [], "deleted": [], "more": False, "reset": True}
    return {
        "items": sessions_json(found.sessions),
        "nextCursor": "",
        "token": sync_cursors.token(principal, found.position),
        "created": [str(key) for key in found.created],
        "deleted": [str(key) for key in found.deleted],
        "more": found.more,
        "reset": False,
    }


def begun(principal: Principal) -> str:
    """The token of who begins to read everything."""
    return sync_cursors.token(principal, sync_cursors.here(principal))
