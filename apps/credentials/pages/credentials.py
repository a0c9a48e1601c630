"""Credentials that people give to agents: by a task's link, and on a remote agent's page; and their list."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from http import HTTPStatus

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.db.models import Q
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables
from django.views.decorators.http import require_http_methods

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.resources import NotNeeded
from apps.agents.models import Agent
from apps.credentials import oauth, requests
from apps.credentials.models import Credential, CredentialRequest, OAuthService
from apps.credentials.requests import LinkClosed, RequestStatus
from apps.record.content import parts
from apps.record.errors import InvalidParams
from apps.record.models import Context, Task
from apps.remote.authentication import credential_forms, credentials
from apps.remote.authentication.credential_forms import CredentialForms, FormProblems
from apps.remote.models import RemoteAgent, RemoteCredential
from apps.web.settings.sections import person_of, private_view, settings_page
from apps.web.shell import principal_of
from parley import db

SECRET_FIELDS = ("secret", "username", "refresh_token")


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters()
@sensitive_variables()
def credential(request: HttpRequest, token: str) -> HttpResponse:
    """The page of a link; a used or expired one says what to do."""
    asked = requests.find_request(token)
    if asked is None:
        raise Http404
    person = request.user if isinstance(request.user, User) else None
    if not requests.may_answer(asked, person):
        if person is None:
            return redirect_to_login(request.path)
        raise Http404
    if request.method == "POST":
        return _answer(request, token, asked, person)
    return _link_page(request, asked, person)


@sensitive_variables()
def _answer(request: HttpRequest, token: str, asked: CredentialRequest, by: User | None) -> HttpResponse:
    try:
        match request.POST.get("answer"):
            case "give" if asked.task.agent.kind == Agent.Kind.REMOTE:
                return _give_to_remote(request, token, asked, by)
            case "give":
                requests.give(asked, requests.read_credential(asked.auth_type, request.POST), by)
            case "decline":
                requests.decline(asked, by)
            case "renew":
                return redirect("web:credential", token=requests.renew(asked))
            case _:
                return _link_page(request, asked, by)
    except InvalidParams as invalid:
        return _link_page(request, asked, by, problem=str(invalid))
    except LinkClosed:
        return redirect("web:credential", token=token)  # the page says why
    return _redirect_after(token, asked, by)


@sensitive_variables()
def _give_to_remote(request: HttpRequest, token: str, asked: CredentialRequest, by: User | None) -> HttpResponse:
    task = asked.task
    if by is None or task.owner is None or requests.request_status(asked) is not RequestStatus.OPEN:
        return redirect("web:credential", token=token)  # the page says why
    if problems := credential_forms.save_form(task.agent, task.owner, request.POST, by):
        return _link_page(request, asked, by, problems=problems)
    asked.refresh_from_db(fields=["answer"])
    return _redirect_after(token, asked, by) if asked.answer else redirect("web:credential", token=token)


def _redirect_after(token: str, asked: CredentialRequest, by: User | None) -> HttpResponse:
    if by is not None and by.pk == asked.task.owner_id:
        return redirect("web:session", session=session_of(asked.task).pk)
    return redirect("web:credential", token=token)


def session_of(task: Task) -> Context:
    """The session in which people see the task: that of its topmost parent."""
    while task.parent is not None:
        task = task.parent
    return task.context


def _link_page(
    request: HttpRequest,
    asked: CredentialRequest,
    person: User | None,
    problem: str = "",
    problems: FormProblems | None = None,
) -> HttpResponse:
    link_status = requests.request_status(asked)
    task = asked.task
    is_owner = person is not None and person.pk == task.owner_id
    said = (task.status_message or {}).get("parts", [])[:-1] if link_status is RequestStatus.OPEN else []
    about = {
        "asked": asked,
        "agent": task.agent,
        "task": task,
        "session": session_of(task),
        "words": parts.words_of(said),
        "link_status": link_status.value,
        "is_owner": is_owner,
        "problem": problem,
        "sheet": _sheet(task, problems) if link_status is RequestStatus.OPEN else None,
        "oauth_service": OAuthService.objects.for_request(asked)
        if is_owner and link_status is RequestStatus.OPEN
        else None,
    }
    is_gone = link_status not in (RequestStatus.OPEN, RequestStatus.GIVEN, RequestStatus.DECLINED)
    status = HTTPStatus.GONE if is_gone else HTTPStatus.OK
    if problem or problems:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    return render(request, "credentials/credential.html", about, status=status)


def _sheet(task: Task, problems: FormProblems | None) -> CredentialForms | None:
    if task.agent.kind != Agent.Kind.REMOTE or task.owner is None:
        return None
    return credential_forms.forms_for(task.agent, task.owner, problems)


@private_view
def credential_list(request: HttpRequest) -> HttpResponse:
    mine = Credential.objects.visible_to(principal_of(request)).usable().select_related("agent").defer(*SECRET_FIELDS)
    remote = RemoteCredential.objects.visible_to(principal_of(request)).untold().select_related("agent")
    given = list(mine.order_by("-given_at"))
    services = {one.name.lower(): one for one in OAuthService.objects.all()}
    for one in given:
        one.connects_to = services.get(one.service.lower())  # type: ignore[attr-defined]
    about = {
        "credentials": given,
        "remote": remote.order_by("agent"),
        "offers": _offers(principal_of(request), given, services),
    }
    return settings_page(request, "credentials", **about)


def _offers(
    principal: Principal, given: Sequence[Credential], services: Mapping[str, OAuthService]
) -> list[tuple[Agent, str, OAuthService]]:
    """What the person can connect because an agent asked them for it: the agent, what it asked for, the service."""
    tasks = Task.objects.of(principal).filter(agent__in=Agent.objects.visible_to(principal))
    hosted = CredentialRequest.objects.filter(task__in=tasks).exclude(task__agent__kind=Agent.Kind.REMOTE)
    asked = set(hosted.values_list("task__agent", "service").distinct()) if services else set()
    asked -= {(one.agent_id, one.service) for one in given}
    agents = Agent.objects.in_bulk({agent for agent, _ in asked})
    wanted = sorted((agents[agent].name, name, agents[agent]) for agent, name in asked if name.lower() in services)
    return [(agent, name, services[name.lower()]) for _, name, agent in wanted]


@private_view
async def revoke_credential(request: HttpRequest, number: int) -> HttpResponse:
    """Tells the service before it answers, without holding a thread meanwhile."""
    if request.method == "POST":
        principal = await db.run(principal_of, request)
        mine = Credential.objects.usable().defer(*SECRET_FIELDS).select_related("oauth_service")
        found = await db.run(mine.find, principal, number)
        await db.run(oauth.REVOKE.admit, principal, found)
        try:
            await oauth.disconnect(found, principal)
        except NotNeeded as why:
            await db.run(messages.info, request, str(why))
        else:
            tell = messages.info if found.is_told else messages.warning
            await db.run(tell, request, oauth.REVOKE.said(found))
    return redirect("web:settings-credentials")


EVERYBODY = "everybody"


@private_view
def agent_credentials(request: HttpRequest, slug: str) -> HttpResponse:
    """A remote agent's credentials that the person may use, or has given to it."""
    agent, person = _credential_agent(principal_of(request), slug), person_of(request)
    if agent is None:
        raise Http404
    if request.method != "POST":
        return _agent_page(request, agent, person)
    whose = None if request.POST.get("whose") == EVERYBODY and _is_registrant(agent, person) else person
    if request.POST.get("do") == "remove":
        credentials.erase(agent, whose, request.POST.get("scheme", ""), person)
    elif problems := credential_forms.save_form(agent, whose, request.POST, person):
        return _agent_page(request, agent, person, problems)
    return redirect("web:agent-credentials", slug=slug)


def has_agent_credentials(agent: Agent, person: User) -> bool:
    """Whether that page has anything for this person."""
    return agent.kind == Agent.Kind.REMOTE and bool(
        credentials.personal_schemes(agent) or _is_registrant(agent, person)
    )


def _credential_agent(principal: Principal, slug: str) -> Agent | None:
    """A remote agent that the person may use, or that still has a credential of theirs."""
    theirs = RemoteCredential.objects.visible_to(principal).values("agent")
    usable = Agent.objects.visible_to(principal).values("pk")
    found = Agent.objects.filter(Q(pk__in=usable) | Q(pk__in=theirs), kind=Agent.Kind.REMOTE, slug=slug)
    return found.select_related("current_version").first()


def _is_registrant(agent: Agent, person: User) -> bool:
    """Did the person register the agent? Then they give the credentials for everybody."""
    return RemoteAgent.objects.filter(agent=agent, registered_by=person).exists()


def _common_sheet(agent: Agent, problems: FormProblems | None) -> CredentialForms | None:
    sheet = credential_forms.forms_for(agent, None, problems)
    shown = [one for one in sheet.shown if not one.is_personal]
    return dataclasses.replace(sheet, shown=shown) if shown else None


def _agent_page(request: HttpRequest, agent: Agent, person: User, problems: FormProblems | None = None) -> HttpResponse:
    about = {
        "agent": agent,
        "sheet": credential_forms.forms_for(agent, person, problems),
        "common": _common_sheet(agent, problems) if _is_registrant(agent, person) else None,
        "everybody": EVERYBODY,
    }
    status = HTTPStatus.UNPROCESSABLE_ENTITY if problems else HTTPStatus.OK
    return render(request, "credentials/agent_credentials.html", about, status=status)
