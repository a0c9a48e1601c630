"""A session as a text that one can copy or keep."""

from __future__ import annotations

import uuid

from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.http import content_disposition_header
from django.utils.text import slugify
from django.views.decorators.http import require_safe

from apps.features.sharing.transcripts import markdown_of
from apps.record.cold import restored_or_none
from apps.record.models import Context
from apps.web.principals import principal_of
from apps.web.shell import zone_of


@require_safe
@login_required
def as_markdown(request: HttpRequest, session: uuid.UUID) -> HttpResponse:
    """The session in Markdown, as a download. Somebody else's is not found."""
    context = restored_or_none(Context.objects.visible_to(principal_of(request)).filter(pk=session).first())
    if context is None:
        raise Http404
    with timezone.override(zone_of(request)):
        response = HttpResponse(markdown_of(context), content_type="text/markdown; charset=utf-8")
    name = f"{slugify(str(context), allow_unicode=True)[:60] or 'session'}.md"
    response["Content-Disposition"] = content_disposition_header(as_attachment=True, filename=name)
    response["Cache-Control"] = "private, no-store"
    return response
