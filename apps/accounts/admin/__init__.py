"""What operators see of it. Django loads this module."""

from apps.accounts.admin import audit, invitations, people, programs  # noqa: F401
