"""What people say to agents: words, files, values and links, as parts of a message in A2A's shape."""

from __future__ import annotations

import base64
import binascii
import re
import uuid
from typing import Any

from django.conf import settings
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

import outbound
from apps.api.fields import AnyValue, Body, Line, Struct
from apps.features.uploads import completing
from apps.record import media_types
from apps.record.errors import Refusal

JSON = dict[str, Any]
MOST_WORDS = 1_000_000  # characters of a text
CONTENT = ("text", "raw", "url", "data")
NAMES = {"filename": "filename", "media_type": "mediaType", "metadata": "metadata"}


@extend_schema_serializer(component_name="Part")
class PartBody(Body):
    """One part: exactly one of text, raw, url, data and uploadId."""

    text = serializers.CharField(required=False, trim_whitespace=False, max_length=MOST_WORDS, allow_blank=True)
    raw = serializers.CharField(required=False, help_text="A file's bytes in base64.")
    url = serializers.CharField(required=False, max_length=8000, help_text="Of a file that is elsewhere.")
    data = AnyValue(required=False, allow_null=True, help_text="Any JSON value.")  # type: ignore[assignment]
    upload_id = serializers.UUIDField(required=False, help_text="Of a whole upload of yours, whose type it has.")
    filename = Line(required=False, allow_blank=True)
    media_type = Line(required=False, allow_blank=True)
    metadata = Struct(required=False)

    def validate_raw(self, value: str) -> str:
        padded = value.replace("-", "+").replace("_", "/").rstrip("=")
        padded += "=" * (-len(padded) % 4)
        try:
            base64.b64decode(padded, validate=True)
        except (binascii.Error, ValueError):
            raise ValidationError("Is not base64.") from None
        return padded

    def validate_url(self, value: str) -> str:
        try:
            outbound.guard().check(value)
        except outbound.Forbidden as refusal:
            raise ValidationError(str(refusal)) from None
        return value

    def validate_filename(self, value: str) -> str:
        """The last component of a path; whatever stands before it is the sender's business."""
        name = re.split(r"[/\\]", value)[-1]
        return name if name.strip(". ") else ""

    def validate(self, attrs: JSON) -> JSON:
        """The part as it is stored; a file is of the type that its content does not contradict."""
        kinds = [kind for kind in (*CONTENT, "upload_id") if kind in attrs]
        if len(kinds) != 1:
            raise ValidationError("Must have exactly one of text, raw, url, data and uploadId.")
        described = {said: attrs[name] for name, said in NAMES.items() if attrs.get(name)}
        if kinds == ["upload_id"]:
            return self._uploaded(attrs["upload_id"], described)
        return media_types.checked({kinds[0]: attrs[kinds[0]], **described})

    def _uploaded(self, upload: uuid.UUID, described: JSON) -> JSON:
        if "mediaType" in described:
            raise ValidationError({"mediaType": ["Is that of the upload. Leave it out."]})
        try:
            part = completing.part_of(self.context["caller"], upload)
        except Refusal as refusal:
            raise ValidationError({"uploadId": [str(refusal)]}) from None
        metadata = {**described.pop("metadata", {}), **part.pop("metadata", {})}
        return {**part, **described, **({"metadata": metadata} if metadata else {})}


def parts_field() -> serializers.BaseSerializer[Any]:
    """The field of a list of parts."""
    bounds: JSON = {"allow_empty": False, "max_length": settings.MAX_PARTS}
    return PartBody(many=True, required=False, **bounds)


def parts_of(body: JSON) -> list[JSON]:
    """The parts that a body with `text`, `parts` or both says. Raises ValidationError where there is none."""
    words = [{"text": body["text"]}] if body.get("text", "").strip() else []
    parts = [*words, *body.get("parts", [])]
    if not parts:
        raise ValidationError({"text": ["Say something, by text or by parts."]})
    if len(parts) > settings.MAX_PARTS:
        raise ValidationError({"parts": [f"At most {settings.MAX_PARTS}, with the text."]})
    return parts
