"""Giving an agent a credential, by the link of a task that waits for it; and taking credentials back."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from http import HTTPStatus

from django.contrib.auth.decorators import login_required
from django.contrib.auth.views import redirect_to_login
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csp import csp_override
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.accounts.models import User
from apps.agents.models import Agent
from apps.features.credentials import requests
from apps.features.credentials.models import AuthType, Credential, CredentialRequest
from apps.features.credentials.requests import Given, LinkClosed, Standing
from apps.record.models import Context, Task
from apps.remote import credential_forms
from apps.remote.credential_forms import Problems, Sheet
from apps.remote.models import RemoteCredential
from apps.web import parts
from apps.web.framing import UNFRAMED
from apps.web.principals import principal_of
from apps.web.shell import page

LONGEST_SECRET = 10_000  # characters
CODES = {Standing.OPEN: HTTPStatus.OK, Standing.GIVEN: HTTPStatus.OK, Standing.DECLINED: HTTPStatus.OK}
"""With which status a link is shown; one that is good for nothing more is gone."""


class Unfit(Exception):
    """What was filled in is no credential; `str()` says what to do."""


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@xframe_options_deny
@csp_override(UNFRAMED)
@sensitive_post_parameters()
@sensitive_variables()
def credential(request: HttpRequest, token: str) -> HttpResponse:
    """The page of a link. Somebody else's is not found; one that was used or is too old says so and what to do."""
    asked = requests.find(token)
    if asked is None:
        raise Http404
    person = request.user if isinstance(request.user, User) else None
    if not requests.may_answer(asked, person):
        if person is None:
            return redirect_to_login(request.path)
        raise Http404
    if request.method == "POST":
        return _answered(request, token, asked, person)
    return _shown(request, asked, person)


@sensitive_variables()
def _answered(request: HttpRequest, token: str, asked: CredentialRequest, by: User | None) -> HttpResponse:
    try:
        match request.POST.get("answer"):
            case "give" if asked.task.agent.kind == Agent.Kind.REMOTE:
                return _given_to_remote(request, token, asked, by)
            case "give":
                requests.give(asked, given(asked.auth_type, request.POST), by)
            case "decline":
                requests.decline(asked, by)
            case "renew":
                return redirect("web:credential", token=requests.renew(asked))
            case _:
                return _shown(request, asked, by)
    except Unfit as unfit:
        return _shown(request, asked, by, problem=str(unfit))
    except LinkClosed:
        return redirect("web:credential", token=token)  # which says why
    return _on_from(token, asked, by)


@sensitive_variables()
def _given_to_remote(request: HttpRequest, token: str, asked: CredentialRequest, by: User | None) -> HttpResponse:
    """Of several that a remote agent wants each is given by itself; with the last one the task goes on."""
    task = asked.task
    if by is None or task.owner is None or requests.standing(asked) is not Standing.OPEN:
        return redirect("web:credential", token=token)  # which says why
    if problems := credential_forms.give(task.agent, task.owner, request.POST, by):
        return _shown(request, asked, by, problems=problems)
    asked.refresh_from_db(fields=["answer"])
    return _on_from(token, asked, by) if asked.answer else redirect("web:credential", token=token)


def _on_from(token: str, asked: CredentialRequest, by: User | None) -> HttpResponse:
    if by is not None and by.pk == asked.task.owner_id:
        return redirect("web:session", session=_session_of(asked.task).pk)
    return redirect("web:credential", token=token)


@sensitive_variables()
def given(auth_type: str, filled_in: Mapping[str, str]) -> Given:
    """The credential that a form says. Raises Unfit."""
    secret, username = filled_in.get("secret", ""), ""
    if auth_type == AuthType.BASIC:
        username = filled_in.get("username", "").strip()
        if not username or ":" in username:
            raise Unfit("Fill in the user name; it has no colon in it.")
    else:
        secret = secret.strip()  # what copying brings along
    if not secret:
        raise Unfit("There is nothing to give yet. Fill in the field, or decline.")
    if len(secret) + len(username) > LONGEST_SECRET or any(_is_control(letter) for letter in secret + username):
        raise Unfit(
            f"This has line breaks or the like in it, or more than {LONGEST_SECRET:,} characters. Copy it again."
        )
    return Given(secret, username)


def _is_control(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs")


def _session_of(task: Task) -> Context:
    """Where people see the task: in the conversation of the one that called for it, however far up that is."""
    while task.parent is not None:
        task = task.parent
    return task.context


def _shown(
    request: HttpRequest,
    asked: CredentialRequest,
    person: User | None,
    problem: str = "",
    problems: Problems | None = None,
) -> HttpResponse:
    standing = requests.standing(asked)
    task = asked.task
    said = (task.status_message or {}).get("parts", [])[:-1] if standing is Standing.OPEN else []
    about = {
        "asked": asked,
        "agent": task.agent,
        "task": task,
        "session": _session_of(task),
        "words": parts.words_of(said),
        "standing": standing.value,
        "is_owner": person is not None and person.pk == task.owner_id,
        "problem": problem,
        "sheet": _sheet(task, problems) if standing is Standing.OPEN else None,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if problem or problems else CODES.get(standing, HTTPStatus.GONE)
    return render(request, "web/credential.html", about, status=status)


def _sheet(task: Task, problems: Problems | None) -> Sheet | None:
    """What the owner brings for a remote agent."""
    if task.agent.kind != Agent.Kind.REMOTE or task.owner is None:
        return None
    return credential_forms.sheet(task.agent, task.owner, problems)


@require_safe
@never_cache
@login_required
def credentials(request: HttpRequest) -> HttpResponse:
    """What the person gave to agents, the newest first."""
    mine = Credential.objects.visible_to(principal_of(request)).usable().select_related("agent").defer(*SECRETS)
    remote = RemoteCredential.objects.visible_to(principal_of(request)).untold().select_related("agent")
    return page(
        request, "web/credentials.html", credentials=mine.order_by("-given_at"), remote=remote.order_by("agent")
    )


@require_POST
@login_required
def revoke(request: HttpRequest, number: int) -> HttpResponse:
    """Take a credential back: its agent asks anew when it needs one. Somebody else's is not found."""
    found = Credential.objects.visible_to(principal_of(request)).usable().defer(*SECRETS).filter(pk=number).first()
    if found is None:
        raise Http404
    found.revoke()
    return redirect("web:credentials")


SECRETS = ("secret", "username")
