"""The address of MCP."""

from django.urls import path

from apps.optional.mcp.views import mcp

urlpatterns = [path("mcp", mcp, name="mcp")]
