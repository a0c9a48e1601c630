"""Addresses of keys and workspaces."""

from apps.accounts.api import keys, workspaces

urlpatterns = [
    *keys.urlpatterns,
    *workspaces.urlpatterns,
]
