"""Connecting to OAuth services: people go to the service from a task's link or their credentials, and come back."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, field
from http import HTTPStatus

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from apps.accounts.models import User
from apps.accounts.pages.account import saved
from apps.agents.models import Agent
from apps.credentials import oauth, requests
from apps.credentials.models import OAuthService
from apps.credentials.oauth import OAuthProblem, Start
from apps.credentials.pages.credentials import session_of
from apps.credentials.requests import RequestStatus
from apps.web.settings.sections import person_of, private_view
from apps.web.shell import principal_of
from parley import db

ATTEMPTS = "oauth_attempts"  # in the session, by state
MOST_ATTEMPTS = 5
ATTEMPT_SECONDS = 600.0
UNKNOWN = "Connecting was not started in this browser, took longer than ten minutes, or is over already."


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a person is connecting, and for whom. `session`: of the task that asks; else "".

    The verifier is worth nothing without the code, which only the service and this browser see.
    """

    user: int
    service: int
    agent: int
    asked_for: str
    back: str
    session: str = ""
    verifier: str = field(default="", repr=False)
    started: float = 0.0  # seconds since the epoch


@private_view
async def connect_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """From the page of a task's link. For the task's owner alone: what they connect is their own."""
    service, attempt = await db.run(_asked_by_link, request, token)
    if service is None or request.method != "POST":
        return redirect("web:credential", token=token)  # the page says what is possible
    return await _leave(request, service, attempt)


def _asked_by_link(request: HttpRequest, token: str) -> tuple[OAuthService | None, Attempt]:
    asked, person = requests.find_request(token), person_of(request)
    if asked is None or asked.task.owner_id != person.pk:
        raise Http404
    is_open = requests.request_status(asked) is RequestStatus.OPEN
    service = OAuthService.objects.for_request(asked) if is_open else None
    back, session = reverse("web:credential", args=[token]), str(session_of(asked.task).pk)
    number = service.pk if service else 0
    return service, Attempt(person.pk, number, asked.task.agent_id, asked.service, back, session)


@private_view
async def connect(request: HttpRequest) -> HttpResponse:
    """From the person's credentials, for an agent that asked for one."""
    if request.method != "POST":
        return redirect("web:settings-credentials")
    service, attempt = await db.run(_chosen, request)
    return await _leave(request, service, attempt)


def _chosen(request: HttpRequest) -> tuple[OAuthService, Attempt]:
    asked_for = request.POST.get("service", "")
    hosted = Agent.objects.visible_to(principal_of(request)).exclude(kind=Agent.Kind.REMOTE)
    agent, service = hosted.filter(slug=request.POST.get("agent", "")).first(), OAuthService.objects.named(asked_for)
    if agent is None or service is None:
        raise Http404
    back = reverse("web:settings-credentials")
    return service, Attempt(person_of(request).pk, service.pk, agent.pk, asked_for, back)


async def _leave(request: HttpRequest, service: OAuthService, attempt: Attempt) -> HttpResponse:
    """A page that leads to the service: a form itself may not (`form-action`)."""
    try:
        start = await oauth.begin(service)
    except OAuthProblem as problem:
        return await db.run(_refused, request, str(problem), attempt.back)
    await db.run(_keep, request, start, attempt)
    page = await db.run(render, request, "credentials/connecting.html", {"service": service, "url": start.url})
    page.headers["Refresh"] = f"0; url={start.url}"
    return page


def _keep(request: HttpRequest, start: Start, attempt: Attempt) -> None:
    begun = list(request.session.get(ATTEMPTS, {}).items())[1 - MOST_ATTEMPTS :]
    this = asdict(attempt) | {"verifier": start.verifier, "started": time.time()}
    request.session[ATTEMPTS] = dict([*begun, (start.state, this)])


@private_view
async def come_back(request: HttpRequest) -> HttpResponse:
    """Where a service sends people back to, with a code or an error."""
    attempt = await db.run(_take, request)
    found = await db.run(_parts, request, attempt) if attempt else None
    if attempt is None or found is None:
        return await db.run(_refused, request, UNKNOWN, reverse("web:settings-credentials"), HTTPStatus.BAD_REQUEST)
    service, agent = found
    try:
        code = oauth.code_from(service, request.GET.dict())
        tokens = await oauth.exchange(service, code, attempt.verifier)
    except OAuthProblem as problem:
        return await db.run(_refused, request, str(problem), attempt.back)
    return await db.run(_finish, request, service, agent, attempt, tokens)


def _take(request: HttpRequest) -> Attempt | None:
    """The attempt of this session that the state names, once."""
    begun = request.session.get(ATTEMPTS, {})
    found = begun.pop(request.GET.get("state", ""), None)
    if found is None:
        return None
    request.session[ATTEMPTS] = begun
    request.session.save()  # the service is asked before this request ends
    attempt = Attempt(**found)
    is_fresh = time.time() - attempt.started < ATTEMPT_SECONDS
    return attempt if is_fresh and attempt.user == person_of(request).pk else None


def _parts(request: HttpRequest, attempt: Attempt) -> tuple[OAuthService, Agent] | None:
    """None if the service or the agent is gone meanwhile."""
    agent = Agent.objects.visible_to(principal_of(request)).filter(pk=attempt.agent).first()
    service = OAuthService.objects.filter(pk=attempt.service).first()
    return (service, agent) if service and agent else None


def _finish(
    request: HttpRequest, service: OAuthService, agent: Agent, attempt: Attempt, tokens: requests.GivenCredential
) -> HttpResponse:
    person: User = person_of(request)
    requests.connect(agent, person, attempt.asked_for, tokens)
    if attempt.session:
        return redirect("web:session", session=attempt.session)
    return saved(request, "credentials", f"{agent.name} can use {service} for you.")


def _refused(
    request: HttpRequest, problem: str, back: str, status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY
) -> HttpResponse:
    return render(request, "credentials/not_connected.html", {"problem": problem, "back": back}, status=status)
