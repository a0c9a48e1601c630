"""The base of admin pages with a live panel."""

from __future__ import annotations

from typing import Any

from django.forms import Media, Script
from django.http import HttpRequest, HttpResponse

from apps.operators.record.panels import Subject, panel
from apps.record.models import Context, Run, Task
from console.records import ReadOnlyAdmin


class LiveAdmin(ReadOnlyAdmin):
    """The panel is rendered with the page; `live.js` renews it over the socket that `live_path` names."""

    change_form_outer_before_template = "admin/console/live.html"
    select_related: tuple[str, ...] = ()

    @property
    def media(self) -> Media:
        return super().media + Media(js=[Script("console/live.js", type="module")])  # type: ignore[list-item]

    def get_queryset(self, request: HttpRequest) -> Any:
        return super().get_queryset(request).select_related(*self.select_related)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        context |= {"panel": panel(obj, request.user), "live_path": live_path(obj)}  # type: ignore[arg-type]
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)


def live_path(subject: Subject) -> str:
    """The socket of a subject's page: of its context, narrowed to the subject."""
    match subject:
        case Context():
            return f"/ws/admin/contexts/{subject.pk}"
        case Task():
            return f"/ws/admin/contexts/{subject.context_id}?task={subject.pk}"
        case Run():
            return f"/ws/admin/contexts/{subject.task.context_id}?run={subject.pk}"
