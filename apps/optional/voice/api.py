"""Speech in the client API: what is offered, words of a recording, a text read aloud."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponse
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.requests import bodies, quotas
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Query, Shape
from apps.api.framework.views import Endpoint
from apps.optional.voice import endpoints
from apps.record.errors import InvalidFields, UnsupportedMediaType
from parley import db


class Language(Query):
    language = serializers.RegexField(
        r"^[a-z]{2}$", default="", help_text="What is spoken, as a code of ISO 639-1. By default the model finds out."
    )


class Words(Shape):
    text = serializers.CharField(help_text="What was said.")


class Spoken(Body):
    text = serializers.CharField(max_length=endpoints.LONGEST_SPOKEN, help_text="What is read.")
    voice = Line(default="", max_length=60, allow_blank=True, help_text="One of the model's voices.")


class Transcriptions(Endpoint):
    receives_body = False

    @documented(
        "voice_transcribe",
        "Write down a recording",
        query=Language,
        body={endpoints.BYTES: OpenApiTypes.BINARY},
        answers=Words,
        refuses=[413, 415, 503],
    )
    async def post(self, request: Request) -> Response:
        """The body is the recording, in WebM, or in Ogg, MP4, MP3, WAV or FLAC with that `Content-Type`, such as
        `audio/wav`. Nothing of it is stored.
        """
        asked = self.query(Language)
        media_type = request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        if media_type not in endpoints.EXTENSIONS:
            raise UnsupportedMediaType(f"Send the recording as one of: {', '.join(endpoints.EXTENSIONS)}.")
        await db.run(quotas.count_act, self.principal)
        recording = await bodies.read(request._request, self.principal)
        if not recording:
            raise InvalidFields([("", "Send the recording as the body.")])
        words = await endpoints.transcribe(self.principal, recording, media_type, asked["language"])
        return Response({"text": words})


class Speech(Endpoint):
    @documented(
        "voice_speak",
        "Read a text aloud",
        body=Spoken,
        answers={(200, kind): OpenApiTypes.BINARY for kind in (endpoints.BYTES, "audio/mpeg")},
        refuses=[503],
    )
    async def post(self, request: Request) -> Any:
        """The answer is an MP3 file. Nothing of it is stored."""
        asked = self.body(Spoken)
        await db.run(quotas.count_act, self.principal)
        spoken = await endpoints.speak(self.principal, asked["text"], asked["voice"])
        return HttpResponse(spoken, content_type="audio/mpeg")


urlpatterns = [
    path("voice/transcriptions", Transcriptions.as_view(), name="transcriptions"),
    path("voice/speech", Speech.as_view(), name="speech"),
]
