"""What you note of a session for yourself: that it stays on top of your list, and how far you saw it."""

from __future__ import annotations

import uuid

from django.urls import path
from drf_spectacular.utils import OpenApiExample, extend_schema_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api.fields import Body, Shape
from apps.api.schema import documented
from apps.api.views import Endpoint
from apps.features.sessions import marks

LARGEST = 2**63 - 1  # what a database keeps


class Marking(Body):
    pinned = serializers.BooleanField(required=False, help_text="Does it stay on top of your list?")
    seen = serializers.IntegerField(
        required=False, min_value=0, max_value=LARGEST, help_text="Index of the newest event that you have seen."
    )


@extend_schema_serializer(component_name="SessionMark")
class MarkShape(Shape):
    """What you noted of a session."""

    pinned = serializers.BooleanField()
    seen = serializers.IntegerField(help_text="Index of the newest event that you have seen.")


class Mark(Endpoint):
    @documented(
        "sessions_mark",
        "Pin a session, or say how far you saw it",
        body=Marking,
        answers={200: MarkShape},
        refuses=[404],
        examples=[OpenApiExample("Pin", {"pinned": True}, request_only=True)],
    )
    def put(self, request: Request, session: uuid.UUID) -> Response:
        """Each of them stays as it is where it is not named; what was seen stays seen."""
        own = marks.mark(self.principal, session, **self.body(Marking))
        return Response({"pinned": own.pinned_at is not None, "seen": own.seen})


urlpatterns = [path("sessions/<uuid:session>/mark", Mark.as_view(), name="session-mark")]
