"""The JSON Schema of plans' definitions, at an address that stays and is its `$id`: for editors and authors."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from typing import Any, cast

from django.conf import settings
from django.http import HttpResponse
from django.urls import path, reverse
from django.utils.cache import get_conditional_response
from drf_spectacular.types import OpenApiTypes
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from apps.api.schema import documented
from apps.api.views import Endpoint
from apps.plans import definitions

MEDIA_TYPE = "application/schema+json"
FRESH = 3600  # seconds for which it need not be asked for again


class PlanSchema(Endpoint):
    """Anybody may read it."""

    permission_classes = [AllowAny]

    @documented(
        "plans_schema",
        "The JSON Schema of a plan's definition",
        answers={(200, MEDIA_TYPE): OpenApiTypes.OBJECT, 304: None},
    )
    def get(self, request: Request) -> HttpResponse:
        """Draft 2020-12; no key is needed. With `If-None-Match`, the ETag that came, it is not sent again."""
        content, etag = _encoded(f"{settings.PUBLIC_BASE_URL}{reverse('api:plan-schema')}")
        headers = {"ETag": etag, "Cache-Control": f"public, max-age={FRESH}", "Access-Control-Allow-Origin": "*"}
        whole = HttpResponse(content, content_type=MEDIA_TYPE, headers=headers)
        return cast("HttpResponse", get_conditional_response(cast("Any", request), etag, response=whole))


@cache
def _encoded(address: str) -> tuple[bytes, str]:
    content = json.dumps(definitions.schema(address), ensure_ascii=False, indent=1).encode()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'


urlpatterns = [path("plans/schema", PlanSchema.as_view(), name="plan-schema")]
