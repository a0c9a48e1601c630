"""Credentials that the caller's tasks ask for."""

from __future__ import annotations

import uuid

from django.core.exceptions import ValidationError
from django.urls import path
from django.views.decorators.debug import sensitive_variables
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.models import User
from apps.accounts.principals import CREDENTIALS
from apps.accounts.requests import quotas
from apps.agents.models import Agent
from apps.api.framework.schema import documented
from apps.api.framework.serializers import Body, Line, Struct
from apps.api.framework.views import Endpoint
from apps.credentials import requests
from apps.credentials.requests import LinkClosed
from apps.engine.turns.questions import asking_task
from apps.record.errors import InvalidFields, TaskNotFound
from apps.record.models import Task
from apps.remote.authentication import credentials


class Giving(Body):
    """A credential, which is stored encrypted and never in the session."""

    secret = serializers.CharField(
        required=False,
        trim_whitespace=False,
        max_length=requests.LONGEST_SECRET,
        help_text="The key, token or password.",
    )
    username = Line(required=False, help_text="With the authentication type `basic`.")
    scheme = Line(required=False, help_text="Of a remote agent: the name of the security scheme in its card.")
    values = Struct(required=False, help_text="Of a remote agent: `key`, `token`, `username` and `password`, …")
    decline = serializers.BooleanField(default=False, help_text="Do not give it. The task fails.")


class TaskCredential(Endpoint):
    scopes = {"POST": CREDENTIALS}

    @documented(
        "tasks_give_credential",
        "Give a task the credential that it asks for",
        body=Giving,
        answers={204: None},
        refuses=[404, 409],
    )
    @sensitive_variables()
    def post(self, request: Request, task: uuid.UUID) -> Response:
        """For your own task in the state `auth-required`. The task goes on, and the agent may use the credential for
        your later tasks, too. It never enters the session. API keys need the scope `credentials:write`.
        """
        given = self.body(Giving)
        quotas.count_act(self.principal)
        own = Task.objects.of(self.principal).select_related("agent__current_version", "owner")
        found = own.filter(pk=task).first()
        if found is not None and (below := asking_task(found.slot)) is not None:  # it passes on what another asks
            found = own.filter(pk=below.pk).first()
        if found is None or found.owner is None:
            raise TaskNotFound
        asked, by = requests.request_of(found), found.owner
        if asked is None:
            raise LinkClosed
        if given["decline"]:
            requests.decline(asked, by, requests.BY_OWNER)
        elif found.agent.kind == Agent.Kind.REMOTE:
            self._give_to_remote(found, given, by)
        else:
            requests.give(asked, requests.read_credential(asked.auth_type, given), by, requests.BY_OWNER)
        return Response(status=204)

    @sensitive_variables()
    def _give_to_remote(self, task: Task, given: dict[str, object], by: User) -> None:
        names = [one.name for one in credentials.personal_schemes(task.agent)]
        scheme = given.get("scheme") or (names[0] if len(names) == 1 else "")
        if scheme not in names:
            raise InvalidFields([("scheme", f"Name the scheme. The agent takes: {', '.join(names) or 'none'}.")])
        values = given.get("values")
        told = {name: one for name, one in values.items() if isinstance(one, str)} if isinstance(values, dict) else {}
        try:
            credentials.save(task.agent, by, str(scheme), told, by)
        except ValidationError as problem:
            raise InvalidFields([("values", " ".join(problem.messages))]) from None


urlpatterns = [path("tasks/<uuid:task>/credential", TaskCredential.as_view(), name="task-credential")]
