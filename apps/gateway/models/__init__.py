"""Remote agents as they are registered, and the work that they do for us."""

from apps.gateway.models.open_work import OpenWork

__all__ = ["OpenWork"]
