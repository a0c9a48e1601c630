"""API keys: the caller's own, and reports of leaked ones."""

from __future__ import annotations

import datetime
import hashlib
from typing import Any, cast

from django.conf import settings
from django.urls import path
from drf_spectacular.utils import extend_schema_serializer
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts import keys
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import KEYS, SCOPES
from apps.accounts.requests import quotas
from apps.accounts.secrets.request_signatures import read_public_key
from apps.agents.models import Agent
from apps.api.framework.resources import ModelShape, ResourceViewSet
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Choice, Line, Shape
from apps.api.framework.views import Endpoint
from apps.api.shapes import JSON
from apps.record.errors import InvalidFields

MAX_DAYS = 3650
MOST_REPORTED = 100  # leaked keys of one request
REPORTED_AS = "parley_api_key"


def _slugs(**options: Any) -> serializers.ListField:
    return serializers.ListField(child=Line(max_length=63), max_length=100, **options)


class NewKey(Body):
    name = Line(max_length=120)
    scopes = serializers.ListField(
        child=Choice([*SCOPES]), min_length=1, help_text="What the key may do. At most what your own key may do."
    )
    agents = _slugs(
        default=list, help_text="The slugs of the only agents that there are for the key. Empty: all that you may use."
    )
    expires_in_days = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=MAX_DAYS,
        help_text="By default the installation's usual lifetime. Null: never.",
    )
    public_key = serializers.CharField(
        default="",
        max_length=1000,
        allow_blank=True,
        trim_whitespace=True,
        help_text="An Ed25519 or P-256 key, PEM or JWK. If given, each request with the key must be signed (RFC 9421).",
    )


class Rotation(Body):
    grace_seconds = serializers.IntegerField(
        default=int(keys.ROTATION_GRACE.total_seconds()),
        min_value=0,
        max_value=int(keys.LONGEST_GRACE.total_seconds()),
        help_text="How long the old secret works beside the new one.",
    )


class Names(serializers.ListField):
    child = serializers.CharField()


class AgentNames(Names):
    """A limited caller does not learn of other agents."""

    def to_representation(self, value: list[str]) -> list[str]:
        return [slug for slug in value if self.context["caller"].may_use(slug)]


@extend_schema_serializer(component_name="ApiKey")
class KeyShape(ModelShape):
    """An API key, without its secret."""

    id = serializers.CharField(source="prefix", help_text="The public part of the key, after `parley_`.")
    scopes = Names(help_text="Empty: everything.")
    agents = AgentNames(help_text="Empty: all.")

    class Meta:
        model = ApiKey
        fields: tuple[str, ...] = (
            "id", "name", "scopes", "agents", "created_at", "expires_at", "last_used_at", "last_used_from",
            "revoked_at", "public_key",
        )  # fmt: skip


@extend_schema_serializer(component_name="NewApiKey")
class NewKeyShape(KeyShape):
    key = serializers.CharField(source="text", help_text="The key's text. Only this response contains it.")

    class Meta(KeyShape.Meta):
        fields = (*KeyShape.Meta.fields, "key")


class LeakedKey(Body):
    """As GitHub's secret scanning reports it."""

    token = serializers.CharField(max_length=200)
    type = serializers.CharField(required=False, max_length=100, allow_blank=True)
    url = serializers.CharField(required=False, max_length=2000, allow_blank=True)
    source = serializers.CharField(  # type: ignore[assignment]
        required=False, max_length=100, allow_blank=True
    )


class LeakedShape(Shape):
    token_hash = serializers.CharField(help_text="The SHA-256 of the token, in hexadecimal.")
    token_type = serializers.CharField()
    label = serializers.ChoiceField(["true_positive", "false_positive"])  # type: ignore[assignment]

    def get_fields(self) -> Any:
        return serializers.Serializer.get_fields(self)  # GitHub's names


def _read_public_key(pem: str) -> str:
    """Raises InvalidFields."""
    try:
        return read_public_key(pem) if pem else ""
    except ValueError as error:
        raise InvalidFields([("publicKey", str(error))]) from None


class Keys(ResourceViewSet):
    resource = keys.KEYS_OF_PEOPLE
    title = "an API key"
    usual, deletes, converter = ("list", "create", "retrieve"), "revoke", "str"
    scopes = dict.fromkeys(("GET", "HEAD", "POST", "DELETE"), KEYS)
    shape = KeyShape
    notes = {"list": "Also shows keys that are revoked or have expired."}

    def find(self, **key: Any) -> ApiKey:
        return ApiKey.objects.find(self.principal, key["key"], by="prefix")

    @documented("keys_create", "Create an API key", body=NewKey, answers={201: NewKeyShape})
    def create(self, request: Request) -> Response:
        """The new key can do no more than the key that creates it: its scopes, its agents, its lifetime and its
        workspace are within that key's. If that key is revoked, so are the keys that it created.
        """
        self._refuse_browsers(request)
        asked = self.body(NewKey)
        self._check_agents(asked["agents"])
        days = asked.get("expires_in_days", settings.API_KEY_DAYS or None)
        lifetime = datetime.timedelta(days=days) if days else None
        reach = asked["scopes"], lifetime, asked["agents"], _read_public_key(asked["public_key"])
        made, _ = keys.make_key(self.principal, cast("User", request.user), asked["name"], *reach)
        return Response(self.shown(NewKeyShape, made), status=201)

    @documented("keys_rotate", "Give an API key a new secret", body=Rotation, answers={200: NewKeyShape})
    def rotate(self, request: Request, **key: Any) -> Response:
        """The key keeps its id, scopes and agents. The old secret works until the grace period ends."""
        self._refuse_browsers(request)
        grace = datetime.timedelta(seconds=self.body(Rotation)["grace_seconds"])
        rotated, _ = keys.rotate_key(self.principal, self.find(**key).pk, grace)
        return Response(self.shown(NewKeyShape, rotated))

    def _refuse_browsers(self, request: Request) -> None:
        """A page asks for the password before it shows a secret; this address cannot. Raises PermissionDenied."""
        if request.auth is None:
            raise PermissionDenied("Make and rotate keys on the settings page, or call this address with an API key.")

    def _check_agents(self, slugs: list[str]) -> None:
        """Raises InvalidFields."""
        usable = Agent.objects.visible_to(self.principal).filter(slug__in=slugs).values_list("slug", flat=True)
        if unknown := [slug for slug in slugs if slug not in set(usable)]:
            raise InvalidFields([("agents", f"There is no agent {', '.join(unknown)}, or you may not use it.")])


class LeakedKeys(Endpoint):
    """Takes reports from anybody: whoever has a key's secret could use it, and may as well end it."""

    authentication_classes = []
    permission_classes = [AllowAny]

    @documented(
        "keys_report_leaked",
        "Report leaked API keys",
        body=LeakedKey(many=True),  # type: ignore[arg-type]
        answers={200: LeakedShape(many=True)},
    )
    def post(self, request: Request) -> Response:
        """Revokes each key whose whole text is given. Requires no credentials. Takes at most 100 keys, in the form of
        GitHub's secret scanning. The regular expression of a key is
        `parley_[0-9a-f]{12}_[A-Za-z0-9_-]{43}[0-9A-Za-z]{6}`; the last six characters are the CRC-32 of what is before
        them, in base 62 (digits, upper case, lower case).
        """
        quotas.count_leak_report(self.address)
        given = LeakedKey(data=request.data, many=True, max_length=MOST_REPORTED)  # type: ignore[call-arg]
        given.is_valid(raise_exception=True)
        reported: list[JSON] = given.validated_data
        known = keys.revoke_leaked_keys({one["token"]: one.get("url") or one.get("source", "") for one in reported})
        answer = [
            {
                "token_hash": hashlib.sha256(one["token"].encode()).hexdigest(),
                "token_type": one.get("type") or REPORTED_AS,
                "label": "true_positive" if one["token"] in known else "false_positive",
            }
            for one in reported
        ]
        return Response(answer)


urlpatterns = [
    path("keys/leaked", LeakedKeys.as_view(), name="leaked-keys"),
    *Keys.urls(),
    path("keys/<str:key>/rotate", Keys.at(post="rotate"), name="rotate-key"),
]
