"""Addresses of imports and exports."""

from django.urls import path

from apps.optional.transfers.pages import data, imports

urlpatterns = [
    *data.urlpatterns,
    path("settings/data/import", imports.import_conversations, name="import-conversations"),
]
