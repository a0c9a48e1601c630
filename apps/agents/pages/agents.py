"""The agents that a person may use: search, a page for each, a console to try one, and the form for remote agents."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import cast

from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.urls import reverse
from django.utils.safestring import SafeString
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.accounts.requests import authentication
from apps.agents import cards, options
from apps.agents.models import NATURES, SEE_VERSIONS, Agent, AgentVersion, in_words
from apps.agents.pages.mcp_clients import connections
from apps.agents.registration import choosable_versions
from apps.agents.search import find_agents, matching, modes_of, skills_of, tags_of
from apps.credentials.pages import credentials
from apps.health import monitoring
from apps.model_agents.making import why_not_make
from apps.plans.registry import definition_of
from apps.record.content.rendering import render_code
from apps.record.events import JSON
from apps.record.execution import Run
from apps.record.models import Context, Task, TaskState
from apps.remote import health_checks
from apps.remote.authentication.credentials import missing
from apps.remote.health_checks import Uptime
from apps.remote.models import RemoteAgent
from apps.routing.suggestions import example_messages
from apps.web import first_steps
from apps.web.shell import agent_or_404, page, page_or_fragment, parse_index, principal_of, reader_view, sessions_of
from apps.web.templatetags.parley import HEALTH_WORDS
from parley.faces import charts
from parley.faces.cells import duration
from parley.registry import added

MOST_VERSIONS = 50  # to choose from
MOST_RECENT = 5  # sessions and versions on an agent's page


@reader_view
def agents(request: HttpRequest) -> HttpResponse:
    """The agents that a search finds; for htmx only the list."""
    found = search(principal_of(request), request.GET)
    told: JSON = {"lacks_model": first_steps.lacks_model(), "model_form": first_steps.model_form_url()}
    told["may_connect_model"] = first_steps.may_connect_model(request)
    if "HX-Request" in request.headers:
        told["may_make"] = not why_not_make(cast("User", request.user))
    else:
        told |= managed_agents(cast("User", request.user))
    response = page_or_fragment(request, "agents/agents.html", "agents/_found.html", found=found, **told)
    if "HX-Request" in request.headers:
        response["HX-Replace-Url"] = reverse("web:agents", query=found.query)
    return response


@reader_view
def agent(request: HttpRequest, slug: str) -> HttpResponse:
    found = agent_or_404(request, slug)
    about = _remote_details(request, found)
    about |= {
        "agent": found,
        "response_times": response_times(found, about["uptime"]),
        "has_form": _has_form(found),
        "may_edit": _may_edit(cast("User", request.user), found),
        "models": options.model_choices(found)[:1] if found.kind == Agent.Kind.MODEL else [],
        "recent_sessions": list(sessions_of(principal_of(request)).filter(agent=found)[:MOST_RECENT]),
        "addresses": endpoints(found),
        "samples": samples(found),
        "mcp_clients": [] if found.mcp_tools == Agent.McpTools.OFF else connections(),
        "versions": _versions(request, found),
        "sees_versions": Agent.objects.with_versions_for(principal_of(request)).filter(pk=found.pk).exists(),
        "words": _chosen_example(request, found),
        "parts": [part(request, found) for part in added["agent_parts"]],
        "tracebacks": tracebacks(request, found, _last_failed(principal_of(request), found)),
    }
    return page(request, "agents/agent.html", **about)


MOST_HIDDEN = 50


def managed_agents(user: User) -> JSON:
    """Whether the person may make an agent, and those that they may edit but not use: retired, and others' own."""
    usable = Agent.objects.visible_to(user.principal).values("pk")
    hidden = Agent.objects.editable_by(user).filter(workspace=user.principal.workspace_id, owner__isnull=False)
    found = hidden.exclude(pk__in=usable).select_related("owner").order_by("name")[:MOST_HIDDEN]
    return {"may_make": not why_not_make(user), "hidden": list(found)}


def _may_edit(user: User, agent: Agent) -> bool:
    return agent.kind == Agent.Kind.MODEL and Agent.objects.editable_by(user).filter(pk=agent.pk).exists()


def tracebacks(request: HttpRequest, agent: Agent, runs: Iterable[Run]) -> list[tuple[Run, str]]:
    """What the agent's code raised in these runs, as HTML: for the agent's owner, and for operators who see runs."""
    user = cast("User", request.user)
    sees_all = user.may_operate("record.view_run")
    seen = [run for run in runs if sees_all or (run.agent or agent).owner_id == user.pk]
    raised = [(run, (run.error or {}).get("traceback", "")) for run in seen]
    return [(run, render_code(whole, "pytb")) for run, whole in raised if whole]


def _last_failed(principal: Principal, agent: Agent) -> Iterator[Run]:
    """The newest run of the caller's own tasks in which the agent's code raised something, if any."""
    newest = Task.objects.of(principal).filter(agent=agent, state=TaskState.FAILED).order_by("-status_at")[:5]
    failed = Run.objects.filter(task__in=list(newest.values_list("pk", flat=True)), error__has_key="traceback")
    yield from failed.order_by("-finished_at")[:1]


def _has_form(agent: Agent) -> bool:
    """Whether it is a plan that starts with a form."""
    definition = definition_of(agent) if agent.kind == Agent.Kind.PLAN else None
    return definition is not None and bool(definition.inputs.get("properties"))


def _remote_details(request: HttpRequest, agent: Agent) -> JSON:
    if agent.kind != Agent.Kind.REMOTE:
        return {"uptime": None, "remote": None, "lacks_credential": False}
    remote = RemoteAgent.objects.select_related("agent__current_version", "proposed").filter(agent=agent).first()
    person = cast("User", request.user)
    has_credentials = credentials.has_agent_credentials(agent, person)
    about = {"uptime": health_checks.uptime_of(agent), "remote": remote, "has_credentials": has_credentials}
    about["takes_options"] = bool(options.options_extension(agent))
    return about | {"lacks_credential": missing(agent, person.pk) is not None}


def _versions(request: HttpRequest, agent: Agent) -> list[AgentVersion]:
    if not cast("User", request.user).has_perm(SEE_VERSIONS):
        return []
    return list(AgentVersion.objects.filter(agent=agent).order_by("-number")[:MOST_RECENT])


def _chosen_example(request: HttpRequest, agent: Agent) -> str:
    """The example that the URL names by its number. A URL cannot supply its own text."""
    examples, number = example_messages(agent), parse_index(request.GET.get("example", ""))
    return examples[number] if number is not None and number < len(examples) else ""


LONGEST_QUERY = 200  # characters
REMEMBERED = 500  # sessions that say which agents a person used last
OTHER = "Other"
"""The heading of agents without a category."""
YOURS = "Yours"


@dataclass(frozen=True, slots=True)
class Option:
    value: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Filter:
    """One select of the form. `name` is its name in the URL."""

    name: str
    label: str
    options: list[Option]
    chosen: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`categories` are the choices of a filter of its own; `uptimes` are those of the remote agents."""

    agents: list[Agent]
    categories: Filter
    filters: list[Filter]
    text: str
    uptimes: dict[int, Uptime]
    maker: int | None  # the person, whose own agents come first

    @property
    def is_narrowed(self) -> bool:
        return bool(self.text or self.categories.chosen) or self.has_filters

    @property
    def groups(self) -> list[tuple[str, list[Agent]]]:
        """The agents by category. Matches of words are one group without a heading, because their order counts."""
        if self.text or self.categories.chosen or not self.categories.options:
            return [("", self.agents)] if self.agents else []
        found: dict[str, list[Agent]] = {}
        for agent in self.agents:
            is_own = agent.owner_id is not None and agent.owner_id == self.maker
            heading = YOURS if is_own else agent.category or OTHER
            found.setdefault(heading, []).append(agent)
        return sorted(found.items(), key=lambda group: (group[0] == OTHER, group[0] != YOURS))

    @property
    def has_filters(self) -> bool:
        return any(one.chosen for one in self.filters)

    @property
    def query(self) -> dict[str, str]:
        """The URL query that repeats this search."""
        asked = {"q": self.text} | {one.name: one.chosen for one in (self.categories, *self.filters)}
        return {name: value for name, value in asked.items() if value}


FILTERS: dict[str, tuple[str, Callable[[Agent], Iterable[str]]]] = {
    "skill": ("Skill", lambda agent: skills_of([agent])),
    "tag": ("Tag", lambda agent: tags_of([agent])),
    "mode": ("Format", lambda agent: modes_of([agent])),
    "nature": ("Type", lambda agent: [agent.nature]),
    "health": ("State", lambda agent: [agent.health]),
}
"""The label of each filter, and the values that an agent has for it."""

FILTER_LABELS: dict[str, dict[str, str]] = {
    "health": {str(value): word for value, word in HEALTH_WORDS.items()},
    "nature": NATURES,
}


def search(principal: Principal, asked: QueryDict) -> SearchResult:
    """The agents that a person may use and that match. A filter value that no agent has matches none.

    Two queries, however many agents; one more for remote ones.
    """
    text = query_text(asked)
    chosen = {name: asked.get(name, "").replace("\x00", "")[:LONGEST_QUERY] for name in ("category", *FILTERS)}
    everybody = find_agents(principal, last_used=last_used(principal))
    agents = matching(everybody, text, **chosen)
    remote = [agent for agent in agents if agent.kind == Agent.Kind.REMOTE]
    uptimes = health_checks.uptimes_of(remote) if remote else {}
    filters = [
        Filter(name, label, _options(everybody, values, FILTER_LABELS.get(name, {})), chosen[name])
        for name, (label, values) in FILTERS.items()
    ]
    categories = _options(everybody, lambda agent: [agent.category] if agent.category else [], {})
    by_category = Filter("category", "Category", categories, chosen["category"])
    return SearchResult(agents, by_category, filters, text, uptimes, principal.user_id)


def suggested_agents(principal: Principal, asked: Mapping[str, str] | None = None) -> list[Agent]:
    """The agents that match `q`; without it, the pinned and the last used ones first. Two queries at most."""
    text = query_text(asked or {})
    return find_agents(principal, text, last_used={} if text else last_used(principal))


def last_used(principal: Principal) -> dict[int, float]:
    """When a person last used each agent, in their newest sessions: seconds since the epoch, by the agent's key."""
    own = Context.objects.of(principal).listed().order_by("-updated_at", "-pk")
    newest = list(own.values_list("agent", "updated_at")[:REMEMBERED])
    return {agent: last.timestamp() for agent, last in reversed(newest)}


def choices_of_versions(principal: Principal, agent: Agent) -> list[AgentVersion]:
    """From which the person chooses, newest first; none if there is only one."""
    found = list(choosable_versions(principal, agent)[:MOST_VERSIONS])
    return found if len(found) > 1 else []


def query_text(asked: Mapping[str, str]) -> str:
    """The words that a URL searches for (`q`). `@echo` names an agent."""
    return asked.get("q", "").replace("\x00", "").strip().removeprefix("@")[:LONGEST_QUERY]


def _options(agents: list[Agent], values: Callable[[Agent], Iterable[str]], labels: dict[str, str]) -> list[Option]:
    counts = Counter(value for agent in agents for value in values(agent))
    options = [Option(value, labels.get(value, value), count) for value, count in counts.items()]
    return sorted(options, key=lambda one: one.label.casefold())


@dataclass(frozen=True, slots=True)
class ResponseTimes:
    """The seconds that an agent's newest answers took, oldest first. Without answers: its health checks."""

    seconds: list[float] = field(default_factory=list)
    are_checks: bool = False

    def __bool__(self) -> bool:
        return bool(self.seconds)

    @property
    def noun(self) -> str:
        return "checks" if self.are_checks else "answers"

    @property
    def typical(self) -> str:
        return in_words(median(self.seconds)) if self.seconds else ""

    @property
    def durations(self) -> list[str]:
        return [duration(one) for one in reversed(self.seconds)]

    @property
    def summary(self) -> str:
        if len(self.seconds) == 1:
            return f"One of its {self.noun} took {self.durations[0]}."
        longest, newest = duration(max(self.seconds)), self.durations[0]
        return f"The last {len(self.seconds)} {self.noun}: the longest took {longest}, the last {newest}."

    @property
    def picture(self) -> SafeString:
        return charts.sparkline(self.seconds, f"How long {self.noun} took", self.summary)


def response_times(agent: Agent, uptime: Uptime | None) -> ResponseTimes:
    took = monitoring.recent_latencies(agent)
    return ResponseTimes(took) if took else _check_times(uptime)


def _check_times(uptime: Uptime | None) -> ResponseTimes:
    checked = [result / 1000 for result in uptime.newest if result is not None] if uptime else []
    return ResponseTimes(checked, are_checks=bool(checked))


DEFAULT_MESSAGE = "Hello"
KEY_PLACEHOLDER = "YOUR-KEY"

PYTHON_TEMPLATE = """\
import asyncio
import uuid

import httpx
from a2a.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types import a2a_pb2 as a2a

URL, KEY = {url}, "{key}"


async def main() -> None:
    async with httpx.AsyncClient(headers={{"Authorization": f"Bearer {{KEY}}"}}, timeout=60) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(URL)
        said = a2a.Message(message_id=str(uuid.uuid4()), role=a2a.ROLE_USER, parts=[a2a.Part(text={words})])
        async for event in client.send_message(a2a.SendMessageRequest(message=said)):
            print(event)


asyncio.run(main())
"""


def endpoints(agent: Agent) -> list[tuple[str, str]]:
    endpoint = cards.agent_url(agent)
    return [
        ("JSON-RPC", endpoint),
        ("HTTP+JSON", f"{endpoint}/message:send"),
        ("Agent card", f"{endpoint}/.well-known/agent-card.json"),
        ("Without naming an agent", f"{settings.PUBLIC_BASE_URL}/a2a"),
    ]


def samples(agent: Agent, key: str = KEY_PLACEHOLDER) -> list[tuple[str, str]]:
    """Programs that call the agent with this API key, by language."""
    return [("curl", curl_sample(agent, key)), ("Python", python_sample(agent, key))]


def curl_sample(agent: Agent, key: str = KEY_PLACEHOLDER) -> str:
    """A JSON-RPC call for a shell."""
    message = {"messageId": "my-first", "role": "ROLE_USER", "parts": [{"text": _sample_message(agent)}]}
    body: JSON = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
    return curl_command(agent, f"-d {shlex.quote(json.dumps(body, ensure_ascii=False))}", key)


def curl_command(agent: Agent, data: str, key: str = KEY_PLACEHOLDER) -> str:
    """A call of the agent in which `data` is the option for the body."""
    headers = (f"Authorization: Bearer {key}", "A2A-Version: 1.0", "Content-Type: application/json")
    options = [*(f"-H {shlex.quote(header)}" for header in headers), data]
    return " \\\n  ".join([f"curl -s {shlex.quote(cards.agent_url(agent))}", *options])


def python_sample(agent: Agent, key: str = KEY_PLACEHOLDER) -> str:
    """A call of the agent with the SDK's client (`pip install a2a-sdk`)."""
    return PYTHON_TEMPLATE.format(
        url=json.dumps(cards.agent_url(agent)), key=key, words=json.dumps(_sample_message(agent))
    )


def _sample_message(agent: Agent) -> str:
    """For programs: JSON where that is what the agent reads."""
    examples = [example for skill in agent.skills for example in skill.get("examples", [])]
    return next(iter([*example_messages(agent), *examples]), DEFAULT_MESSAGE)


@reader_view
def try_agent(request: HttpRequest, slug: str) -> HttpResponse:
    agent = agent_or_404(request, slug)
    return page(request, "agents/try_agent.html", agent=agent, console=console_state(agent))


@require_POST
@login_required
@never_cache
def console_token(request: HttpRequest, slug: str) -> JsonResponse:
    """A token for this agent only. It ends with the sign-in."""
    agent = agent_or_404(request, slug)
    text, expires = authentication.issue_access_token(
        cast("User", request.user), request.session.session_key or "", agent.slug
    )
    return JsonResponse({"token": text, "expiresAt": expires.isoformat()})


def console_state(agent: Agent) -> JSON:
    """The data that the console's script starts with."""
    return {
        "name": agent.name,
        "path": f"/a2a/{agent.slug}",
        "endpoint": cards.agent_url(agent),
        "token": reverse("web:try-token", args=[agent.slug]),
        "streams": agent.streams,
        "words": _sample_message(agent),
    }


ACCESS_CHOICES: dict[str, str] = {
    Agent.Access.WORKSPACE: "Only you",
    Agent.Access.AUTHENTICATED: "Everyone who is signed in",
    Agent.Access.PUBLIC: "Everyone, without signing in",
}
"""Who may use an agent, in a person's words; operators choose."""
