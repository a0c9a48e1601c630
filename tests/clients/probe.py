"""Test-only endpoints that show what every endpoint does."""

from django.db import OperationalError
from django.urls import include, path, re_path
from rest_framework import serializers
from rest_framework.response import Response

from apps.accounts.requests import quotas
from apps.api.framework.serializers import AnyValue, Body, Line, Query
from apps.api.framework.views import Endpoint, UnknownAddress
from apps.api.urls import in_both_forms


class Said(Body):
    some_words = Line()
    anything = AnyValue(required=False)


class Asked(Query):
    number = serializers.IntegerField(required=False)
    names = serializers.ListField(child=Line(), required=False)


class Mirror(Endpoint):
    def get(self, request):
        return Response({"name": self.principal.name, "asked": self.query(Asked)})

    def post(self, request):
        return Response(self.body(Said), status=201)

    async def put(self, request):
        return Response(self.body(Said))


class Act(Endpoint):
    async def post(self, request):
        quotas.count_act(self.principal)
        return Response({})


class Broken(Endpoint):
    def get(self, request):
        raise RuntimeError("a secret of the inside")

    async def post(self, request):
        raise OperationalError("the server closed the connection")


addresses = [path("mirror", Mirror.as_view()), path("act", Act.as_view()), path("broken", Broken.as_view())]
forms = [form for one in addresses for form in in_both_forms(one)]
urlpatterns = [path("api/v1/", include([*forms, re_path(".*", UnknownAddress.as_view())]))]
