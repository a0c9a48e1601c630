"""What operators see of it. Django loads this module."""

from apps.installation.admin import connections, network, operation, tool_servers  # noqa: F401
