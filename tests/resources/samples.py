"""What the declarations do not say: bodies of new rows, and rows that `tests/isolation/world.py` has not."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.db.models import Model
from django.utils import timezone

from agentkit import Completed
from apps.a2a.models import Delivery, PushConfig
from apps.accounts.models import ApiKey, User
from apps.accounts.principals import READ
from apps.agents.identities.signing import signer_of
from apps.agents.models import Agent, AgentVersion, SigningKey
from apps.agents.registration import register_hosted
from apps.agents.rollouts.models import Rollout
from apps.api.framework.resources import ResourceViewSet
from apps.conversations.sessions import commands
from apps.credentials.models import AuthType, Credential
from apps.engine.accept import accept
from apps.installation.models import Operation
from apps.notifications.models import Channel, Notification
from apps.optional.channels.models import ChatAccount
from apps.optional.comparing import comparing
from apps.optional.comparing.comparing import Answerer
from apps.optional.comparing.models import Comparison
from apps.optional.evaluations.models import Evaluation, Example
from apps.optional.knowledge.collections import save as save_collection
from apps.optional.knowledge.models import Collection
from apps.optional.memory.models import MemoryEntry
from apps.optional.projects.models import Project
from apps.optional.projects.projects import save as save_project
from apps.optional.prompts import library
from apps.optional.prompts.models import Prompt
from apps.optional.transfers import exports
from apps.plans.definitions import PlanDefinition
from apps.plans.models import PlanRun
from apps.plans.registry import register_plan
from apps.plans.running.runs import begin_run
from apps.record.execution import Run
from apps.record.models import Context, Task
from apps.remote.models import Breaker, Checkup, Peer, RemoteAgent, RemoteCredential
from tests.isolation import world
from tests.isolation.world import ECHO, Place
from tests.working import begin, end

JSON = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Of the client API.

    Attributes:
        body: creates a row; by default the example of the reference.
        inside: the row within the answer that created it, if it is not the answer itself.
        ready: makes a new row's acts possible, by its id.
    """

    body: JSON | None = None
    inside: str = ""
    ready: Callable[[str], object] = lambda key: None


def begin_plan_run(key: object) -> None:
    task = Task.objects.select_related("agent__current_version").get(pk=key)
    begin_run(task, task.agent.current_version)


HOOK = {"type": "webhook", "name": "Mine", "url": "https://192.0.43.8/hook"}
SAMPLES = {
    "channels": Sample(HOOK, ready=lambda key: Channel.objects.update(url="http://127.0.0.1:9/")),  # it calls nobody
    "comparisons": Sample({"text": "hello", "answerers": [{"agent": "echo"}, {"agent": "plan"}]}),
    "exports": Sample({}, ready=lambda key: exports.make(uuid.UUID(key))),
    "keys": Sample({"name": "robot", "scopes": [READ]}),
    "memory": Sample(ready=lambda key: MemoryEntry.objects.filter(pk=key).update(forgotten_at=timezone.now())),
    "plan-runs": Sample({"plan": "plan", "inputs": {}}, "run", begin_plan_run),
}


def sample_of(viewset: type[ResourceViewSet]) -> Sample:
    return SAMPLES.get(viewset.resource.name, Sample())


def body_of(viewset: type[ResourceViewSet], **fields: Any) -> JSON:
    body = sample_of(viewset).body
    assert body is not None or viewset.examples, f"Give {viewset.__name__} `examples`: a body that creates a row."
    found = viewset.examples[0].value if body is None else body
    return {**found, **({"agent": "echo"} if "agent" in found else {}), **fields}


def register_the_plan() -> None:
    steps = {"one": {"agent": "echo", "message": "hello"}}
    register_plan("plan", PlanDefinition.read({"name": "Plan", "description": "A plan.", "steps": steps}))


NEEDS_ANOTHER_SERVER = {"remote.refresh", "remote.check", "remote.approve", "checkup.check", "chat_channel.test"}
"""Acts of admin that ask another server, or need what it answered: `tests/remote` does them."""
OF_ANOTHER_KIND = {"agent.keep-versions", "agent.use-newest"}
"""Acts on agents that have no handler: `tests/agents/test_release_faces.py` does them."""


PROPOSED = {"card": {}, "signature": {"state": "none"}}


def _agent(place: Place) -> Agent:
    made = register_hosted(f"agent-{Agent.objects.count()}", ECHO)
    Example.objects.create(agent=made, text="hello", created_by=place.owner)
    return made


def _old_version(place: Place) -> AgentVersion:
    AgentVersion.objects.filter(agent__slug=place.ids["own agent"], number=0).delete()
    agent = Agent.objects.get(slug=place.ids["own agent"])
    return AgentVersion.objects.create(agent=agent, number=0, content=agent.current_version.content, sha256="")


def _rollout(place: Place) -> Rollout:
    version = _old_version(place)
    Example.objects.create(agent=version.agent, text="hello", created_by=place.owner)
    made = Rollout.objects.create(agent=version.agent, candidate=version, percent=10, started_by=place.owner)
    Agent.objects.filter(pk=version.agent_id).update(rollout=made)
    return made


def _remote(place: Place) -> RemoteAgent:
    agent = _agent(place)
    Checkup.objects.get_or_create(agent=agent)
    Breaker.objects.create(agent=agent, opened_at=timezone.now())
    Agent.objects.filter(pk=agent.pk).update(current_version=None)
    proposed = AgentVersion.objects.create(agent=agent, number=9, content=PROPOSED, sha256="")
    return RemoteAgent.objects.create(agent=agent, proposed=proposed)


def _run(place: Place, slug: str = "echo") -> Run:
    """One that works."""
    sent = accept(place.principal, Agent.objects.get(slug=slug), world.said("hello"))
    begin(sent.run)
    return Run.objects.get(pk=sent.run)


def _plan_run(place: Place) -> PlanRun:
    begin_plan_run(task := _run(place, place.ids["plan"]).task_id)
    return PlanRun.objects.get(pk=task)


def _session(place: Place) -> Context:
    sent = accept(place.principal, Agent.objects.get(slug="echo"), world.said("hello"))
    end(begin(sent.run), Completed("hello"))
    commands.archive_session(place.principal, sent.context)
    return Context.objects.get(pk=sent.context)


def _delivery(place: Place) -> Delivery:
    config = PushConfig.objects.get(config_id=place.ids["webhook"])
    return Delivery.objects.create(config=config, event_index=Delivery.objects.count(), state="dead")


def _peer(place: Place) -> Peer:
    return Peer.objects.create(name="Far", state="paired", did=f"did:web:{uuid.uuid4()}")


def _credential(place: Place) -> Credential:
    about = {"service": "mail", "auth_type": AuthType.API_KEY, "secret": "a secret"}
    return Credential.objects.create(agent=_agent(place), user=place.owner, **about)


def _notification(place: Place) -> Notification:
    told = Notification.objects.filter(channel=place.ids["channel"]).latest("event_index")
    told.pk, told.event_index, told.state = uuid.uuid4(), told.event_index + 1, "failed"
    told.save(force_insert=True)
    return told


def _comparison(place: Place) -> Comparison:
    rivals = [Answerer(Agent.objects.get(slug="echo")), Answerer(_agent(place))]
    return comparing.begin(place.principal, rivals, parts=[{"text": "hello"}], key=uuid.uuid4().hex)[0]


def _remote_credential(place: Place) -> RemoteCredential:
    return RemoteCredential.objects.create(agent=_agent(place), user=place.owner, scheme="s", kind="bearer")


MAKERS: dict[type[Model], Callable[[Place], Model]] = {
    Agent: _agent,
    AgentVersion: _old_version,
    ApiKey: lambda place: ApiKey.issue(place.owner, "robot")[0],
    ChatAccount: lambda place: ChatAccount.objects.create(
        channel_id=place.ids["chat_channel"], user=place.owner, external_id=uuid.uuid4().hex
    ),
    Checkup: lambda place: _remote(place).agent.checkup,
    Collection: lambda place: save_collection(place.principal, Collection(name=f"Collection {uuid.uuid4()}")),
    Comparison: _comparison,
    Context: _session,
    Credential: _credential,
    Delivery: _delivery,
    Evaluation: lambda place: Evaluation.objects.create(agent=_agent(place)),
    Notification: _notification,
    Operation: lambda place: Operation.objects.get_or_create()[0],
    Peer: _peer,
    Prompt: lambda place: library.save(place.principal, Prompt(name="Summary", text="Summarize {{topic}}.")),
    PlanRun: _plan_run,
    Project: lambda place: save_project(place.principal, Project(name=f"Project {uuid.uuid4()}")),
    RemoteAgent: _remote,
    RemoteCredential: _remote_credential,
    Rollout: _rollout,
    Run: _run,
    SigningKey: lambda place: SigningKey.objects.get(kid=signer_of(_agent(place)).kid),
    Task: lambda place: _run(place).task,
    User: lambda place: User.objects.create_user(f"{uuid.uuid4().hex}@example.org"),
}
"""Rows on which operators act, where `tests/isolation/world.py` has none that is ready for it."""
