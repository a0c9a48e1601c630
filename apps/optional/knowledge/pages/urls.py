"""The addresses of people's pages of knowledge."""

from __future__ import annotations

from django.urls import path

from apps.optional.knowledge.pages import collections, elsewhere, passages

PLACE = "knowledge/<uuid:collection>"
urlpatterns = [
    path("knowledge/passages/<str:ref>", passages.passage, name="passage"),
    path(f"{PLACE}/files", collections.add_files, name="collection-add-files"),
    path(f"{PLACE}/page", collections.add_page, name="collection-add-page"),
    path(f"{PLACE}/search", collections.search, name="collection-search"),
    path(f"{PLACE}/sources", collections.read_sources, name="collection-sources"),
    path(f"{PLACE}/sources/<uuid:source>/act", collections.act_on_source, name="source-act"),
    path(f"{PLACE}/sources/<uuid:source>/file", collections.file, name="source-file"),
    path("agents/<slug:slug>/knowledge", elsewhere.give, name="agent-knowledge"),
    *collections.PAGES.urls(),
]
