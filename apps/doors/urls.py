"""The URLs of the doors."""

from django.urls import include, path

from apps.doors import agui, hooks
from apps.doors.links import linked_file
from apps.doors.mcp.views import mcp
from apps.doors.openai import views as openai

urlpatterns = [
    path("mcp", mcp, name="mcp"),
    path("v1/files/<str:signed>/<str:filename>", linked_file, name="door-file"),
    *agui.urlpatterns,
    *hooks.urlpatterns,
    path("v1/", include((openai.urlpatterns, "openai"))),
]
