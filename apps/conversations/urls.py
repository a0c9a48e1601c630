"""The address of files in sessions."""

from django.urls import path

from apps.conversations.public_links.downloads import file_view

urlpatterns = [path("files/<uuid:context_id>/<str:sha256>", file_view, name="file")]
