"""Which language model or remote agent each of the person's conversations went to, titles and embeddings included."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from django.conf import settings
from django.db.models import Q
from django.http import HttpRequest, HttpResponse

from apps.accounts.principals import Principal
from apps.agents.models import DEPLOYMENT, NATURES, PROCESS, Agent
from apps.budgets.models import Spending
from apps.conversations.sessions.titles import title_key
from apps.plans.graphs import plan_at
from apps.plans.models import Step
from apps.record.execution import Run
from apps.record.models import Context, Message, Task
from apps.web.settings.sections import person_of, private_view, settings_page

SESSIONS = 50  # the newest
DEEPEST = 10  # agents that call agents
Names = defaultdict[uuid.UUID, set[str]]


@dataclass(frozen=True, slots=True)
class Session:
    """`models` answered, and `remote` says which agents got messages that run apart from Parley."""

    context: Context
    models: list[str]
    title_models: list[str]
    embedding: str
    remote: list[str]


@private_view
def destinations(request: HttpRequest) -> HttpResponse:
    return settings_page(request, "destinations", rows=list(_sessions(person_of(request).principal)))


def _sessions(principal: Principal) -> Iterator[Session]:
    found = list(Context.objects.of(principal).listed().defer("memory").order_by("-updated_at", "-pk")[:SESSIONS])
    home = _with_children(found)
    models: Names = defaultdict(set)
    titles: Names = defaultdict(set)
    remote: Names = defaultdict(set)
    for run, model, context in Spending.objects.filter(context__in=home).values_list("run", "model", "context"):
        (titles if run == title_key(context) else models)[home[context]].add(model)
    for context, name in _models_of_answers(home):
        models[home[context]].add(name)
    is_remote = Q(agent__kind=Agent.Kind.REMOTE) | Q(agent=None, task__agent__kind=Agent.Kind.REMOTE)
    sent = Run.objects.filter(is_remote, task__context__in=home, input__has_key="sent")
    of_fallback, of_agent = (f"{path}__current_version__content__{DEPLOYMENT}" for path in ("agent", "task__agent"))
    names = ("agent__name", of_fallback, "task__agent__name", of_agent)
    for key, fallback, its_folder, agent, folder in sent.values_list("task__context_id", *names):
        nature = PROCESS if (its_folder if fallback else folder) else Agent.Kind.REMOTE
        remote[home[key]].add(f"{NATURES[nature]}: {fallback or agent}")
    choosing = Task.objects.filter(context__in=home, agent__slug__in=(settings.DEFAULT_AGENT, settings.ROUTER_AGENT))
    chosen = (
        [*choosing.values_list("context_id", flat=True), *_choosing_plans(home)] if settings.EMBEDDING_MODEL else ()
    )
    embedded = {home[key] for key in chosen}
    for one in found:
        answered, named, called = (sorted(names[one.pk]) for names in (models, titles, remote))
        embedding = settings.EMBEDDING_MODEL if one.pk in embedded else ""
        yield Session(one, answered, named, embedding, called)


def _models_of_answers(contexts: Collection[uuid.UUID]) -> Iterator[tuple[uuid.UUID, str]]:
    """The models of answers without a task, which their messages name."""
    answers = Message.objects.filter(context__in=contexts, task=None, role=Message.Role.AGENT)
    for context, names in answers.filter(metadata__has_key="models").values_list("context_id", "metadata__models"):
        if isinstance(names, list):
            yield from ((context, name) for name in names if isinstance(name, str))


def _choosing_plans(contexts: Collection[uuid.UUID]) -> Iterator[uuid.UUID]:
    """The contexts of plans with a step for which an agent was chosen by what it can do."""
    steps = Step.objects.filter(run__task__context__in=contexts).exclude(agent="").order_by()
    for context, version, key in steps.values_list("run__task__context_id", "run__version_id", "key").distinct():
        if plan_at(version).step(key).find:
            yield context


def _with_children(sessions: list[Context]) -> dict[uuid.UUID, uuid.UUID]:
    """The session of each context, those of child tasks included."""
    home = {one.pk: one.pk for one in sessions}
    newest = set(home)
    for _ in range(DEEPEST):
        parents: dict[uuid.UUID, uuid.UUID] = dict(
            Task.objects.filter(context__in=newest).values_list("pk", "context_id")
        )
        children = Context.objects.filter(parent_task__in=parents).values_list("pk", "parent_task")
        added = {key: home[parents[task]] for key, task in children if task and key not in home}
        home |= added
        newest = set(added)
        if not newest:
            break
    return home
