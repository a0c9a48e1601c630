"""`GET /search`: what was said and delivered in the caller's sessions, by its words."""

from __future__ import annotations

import datetime
from typing import Any

from django.urls import path
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.api import pages
from apps.api.fields import Choice, Line, Listing, Shape, page_of
from apps.api.schema import documented
from apps.api.views import Endpoint
from apps.features.search import finding, queries
from apps.features.search.finding import Found, Place
from apps.features.search.models import SearchEntry
from apps.record import wire

JSON = dict[str, Any]


class Searching(Listing):
    q = serializers.CharField(
        max_length=queries.LONGEST,
        help_text='Words, all of which are to be found; `"a phrase"`, `-without`, `begin*`.',
    )
    kind = serializers.ListField(child=Choice(SearchEntry.Kind.values), default=list, help_text="What is looked for.")
    session = serializers.UUIDField(default=None, help_text="In this session alone, with what it was forked from.")
    agent = Line(default="", help_text="In sessions with the agent of this slug alone.")
    before = serializers.DateTimeField(default=None, help_text="Older than this alone.")


class Piece(Shape):
    text = serializers.CharField()
    hit = serializers.BooleanField(help_text="Is it what was looked for?")


class Hit(Shape):
    kind = serializers.ChoiceField(SearchEntry.Kind.choices)
    id = serializers.CharField(help_text="Of the message or the artifact; of a title that of its session.")
    session_id = serializers.UUIDField(help_text="The session in which it was said.")
    session_title = serializers.CharField()
    agent = serializers.CharField(help_text="Slug of the session's agent.")
    index = serializers.IntegerField(help_text="Of the event that brought it; 0 for a title.")
    name = serializers.CharField(help_text="Of an artifact; of a message its role.")
    timestamp = serializers.CharField()
    excerpt = Piece(many=True, help_text="Of its text, as data: to be shown as text.")


class Search(Endpoint):
    @documented(
        "search_list",
        "Search messages, artifacts and titles",
        query=Searching,
        answers={200: page_of(Hit)},
        refuses=[404],
    )
    def get(self, request: Request) -> Response:
        """The best first; of those that are alike the newest. What was said a moment ago is found."""
        asked = self.query(Searching)
        narrowed = [asked["q"], sorted(asked["kind"]), str(asked["session"]), asked["agent"], str(asked["before"])]
        found = finding.find(
            self.principal,
            asked["q"],
            kinds=asked["kind"],
            session=asked["session"],
            agent=asked["agent"],
            before=asked["before"],
            limit=asked["limit"],
            after=_place(pages.place_of(asked["cursor"], self.principal, "search", *narrowed)),
        )
        after = found.after
        cursor = pages.cursor(_said(after), self.principal, "search", *narrowed) if after else ""
        return Response({"items": [hit_json(one) for one in found.results], "nextCursor": cursor})


def hit_json(found: Found) -> JSON:
    return {
        "kind": found.kind,
        "id": found.key or str(found.context.pk),
        "sessionId": str(found.context.pk),
        "sessionTitle": found.context.title,
        "agent": found.context.agent.slug,
        "index": found.index,
        "name": found.name,
        "timestamp": wire.timestamp(found.at),
        "excerpt": found.excerpt,
    }


def _place(told: list[Any] | None) -> Place | None:
    if told is None:
        return None
    score, at, key, newest = told
    return Place(score, datetime.datetime.fromisoformat(at), key, newest)


def _said(place: Place) -> list[Any]:
    return [place.score, place.at.isoformat(), place.key, place.newest]


urlpatterns = [path("search", Search.as_view(), name="search")]
