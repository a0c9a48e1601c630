"""What operators see of it. Django loads this module."""

from apps.credentials.admin import credentials, oauth_services  # noqa: F401
