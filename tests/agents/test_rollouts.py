"""Which version of its agent a session uses: the rule of the agent, rollouts, and rolling back."""

import pytest

from agentkit import Completed
from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.permissions import Role
from apps.accounts.resources import NotNeeded
from apps.agents import versions
from apps.agents.models import Agent
from apps.agents.registration import REVERT, NoRelease, OneVersionOnly, Unusable, define
from apps.agents.rollouts.models import Rollout
from apps.agents.rollouts.releasing import ABANDON, KEEP_VERSIONS, PROMOTE, ROLLOUTS, USE_NEWEST, CannotTry
from apps.conversations.forks.forking import fork
from apps.conversations.sessions.commands import create_session, switch_agent
from apps.engine.accept import accept
from apps.plans.definitions import PlanDefinition
from apps.plans.registry import register_plan, update_plan
from apps.record.models import Context
from apps.record.projection import differences
from tests import members
from tests.agents.definitions import clerk, definition
from tests.working import begin, end

pytestmark = pytest.mark.django_db


@pytest.fixture
def agent(ada):
    made = clerk()
    Agent.objects.update(workspace=ada.personal_workspace, owner=ada)
    return read(made)


def read(agent):
    return Agent.objects.select_related("current_version").get(pk=agent.pk)


def candidate(agent, **fields):
    return define(read(agent), definition(**{"instructions": "Answer in two sentences.", **fields}), as_candidate=True)


def roll_out(person, version, percent):
    return ROLLOUTS.store(person.principal, Rollout(candidate=version, percent=percent))


@pytest.fixture
def turn(ada, said):
    """A turn in a session: the number of its version, and the session's A2A contextId."""

    def turn(agent, session=""):
        agent = read(agent)
        receipt = accept(ada.principal, agent, said(contextId=session) if session else said())
        assignment = begin(receipt.run)
        end(assignment, Completed("Done."))
        context = Context.objects.get(pk=receipt.context)
        assert differences(context.pk) == []
        return assignment.agent.current_version.number, context.context_id

    return turn


def test_sessions_move_or_stay_as_agent_says(ada, agent, turn):
    _, session = turn(agent)
    clerk(instructions="Answer in two sentences.")
    assert turn(agent, session) == (2, session)
    KEEP_VERSIONS.perform(ada.principal, read(agent))
    assert turn(agent, session) == (1, session)
    assert turn(agent)[0] == 2
    USE_NEWEST.perform(ada.principal, read(agent))
    assert turn(agent, session) == (2, session)
    with pytest.raises(NotNeeded):
        USE_NEWEST.perform(ada.principal, read(agent))
    entries = AuditEntry.objects.filter(action=AuditAction.SESSIONS_SET, actor_name=ada.email)
    assert entries.count() == 2


def test_fork_and_new_options_keep_version(ada, agent, turn):
    KEEP_VERSIONS.perform(ada.principal, agent)
    _, session = turn(agent)
    context = Context.objects.get(context_id=session)
    clerk(instructions="Answer in two sentences.")
    switch_agent(ada.principal, context.pk, agent, {"settings": {"temperature": 0.5}})
    child = fork(ada.principal, context.pk, context.last_event, reason="fork")
    assert turn(agent, session)[0] == turn(agent, child.context_id)[0] == 1
    other = clerk("other")
    switch_agent(ada.principal, context.pk, other)
    switch_agent(ada.principal, context.pk, read(agent))
    assert turn(agent, session)[0] == 2, "it begins with the agent again"


def test_part_of_new_sessions_tries_candidate(ada, agent, turn):
    before = turn(agent)[1]
    version = candidate(agent)
    rollout = roll_out(ada, version, 30)
    names = [f"session {number}" for number in range(40)]
    tried = {name for name in names if turn(agent, name)[0] == 2}
    assert tried == {name for name in names if versions.percentile_of(name, version.pk) < 30}
    assert 3 < len(tried) < 25
    assert turn(agent, before)[0] == 1, "only new sessions try it"
    rollout.percent = 0
    ROLLOUTS.store(ada.principal, rollout)
    assert {name for name in names if turn(agent, name)[0] == 2} == tried, "they keep what they got"
    assert turn(agent)[0] == 1


def test_repeated_session_is_same_at_another_percent(ada, agent):
    rollout = roll_out(ada, candidate(agent), 0)
    made = create_session(ada.principal, read(agent), key="one")
    rollout.percent = 100
    ROLLOUTS.store(ada.principal, rollout)
    again = create_session(ada.principal, read(agent), key="one")
    assert (again.repeated, again.context.pk, again.context.agent_version) == (True, made.context.pk, 1)
    assert create_session(ada.principal, read(agent), key="two").context.agent_version == 2


def test_promoted_candidate_is_current(ada, agent, turn):
    version = candidate(agent, name="Chief clerk")
    rollout = roll_out(ada, version, 100)
    _, session = turn(agent)
    PROMOTE.perform(ada.principal, rollout)
    agent = read(agent)
    assert (agent.current_version, agent.name, agent.rollout) == (version, "Chief clerk", None)
    assert turn(agent, session)[0] == turn(agent)[0] == 2
    with pytest.raises(NotNeeded):
        PROMOTE.perform(ada.principal, Rollout.objects.get())
    ended = AuditEntry.objects.get(action=AuditAction.ROLLOUT_ENDED)
    assert (ended.actor_name, ended.details["outcome"]) == (ada.email, "promoted")


@pytest.mark.parametrize("act", ["abandon", "roll back"])
def test_no_session_stays_on_withdrawn_version(ada, agent, turn, act):
    KEEP_VERSIONS.perform(ada.principal, agent)
    first = agent.current_version
    if act == "abandon":
        rollout = roll_out(ada, candidate(agent), 100)
    else:
        clerk(instructions="Answer in two sentences.")
    number, session = turn(agent)
    assert number == 2
    if act == "abandon":
        ABANDON.perform(ada.principal, rollout)
    else:
        REVERT.perform(ada.principal, type(first).objects.select_related("agent__current_version").get(pk=first.pk))
    agent = read(agent)
    assert turn(agent, session)[0] == agent.current_version.number != 2
    assert agent.current_version.content == first.content
    roll_out(ada, agent.versions.get(number=2), 0)
    assert turn(agent, session)[0] == 2, "what is tried again is not withdrawn"


def test_one_rollout_at_a_time(ada, agent):
    with pytest.raises(CannotTry):
        roll_out(ada, agent.current_version, 10)
    rollout = roll_out(ada, candidate(agent), 10)
    with pytest.raises(CannotTry):
        roll_out(ada, candidate(agent, name="Third"), 10)
    ABANDON.perform(ada.principal, rollout)
    with pytest.raises(CannotTry):
        ROLLOUTS.store(ada.principal, rollout)


def test_agent_saved_meanwhile_keeps_its_rollout(ada, agent):
    rollout = roll_out(ada, candidate(agent), 10)
    agent.description = "Read before the rollout began."
    agent.save()
    assert read(agent).rollout == rollout


def test_handlers_version_cannot_run_beside_another(ada, echo):
    Agent.objects.filter(pk=echo.pk).update(workspace=ada.personal_workspace)
    echo = read(echo)
    other = versions.propose_version(echo, {**echo.current_version.content, "name": "Other"})
    for act in (lambda: roll_out(ada, other, 10), lambda: KEEP_VERSIONS.perform(ada.principal, echo)):
        with pytest.raises(OneVersionOnly):
            act()


def test_only_its_builders_release_versions(ada, bob, agent):
    version = candidate(agent)
    builder = members.member(bob, ada)
    with pytest.raises(NoRelease):
        ROLLOUTS.store(builder, Rollout(candidate=version, percent=10))
    manager = members.member(bob, ada, Role.MANAGER)
    assert ROLLOUTS.store(manager, Rollout(candidate=version, percent=10)).pk
    operator = members.operator("eve@example.org", "change_agent", "view_agentversion")
    ABANDON.perform(operator.principal, Rollout.objects.get())


def test_plans_have_rollouts_too(ada, echo, said):
    def steps(*names):
        return {name: {"agent": "echo", "message": name} for name in names}

    read_plan = lambda *names: PlanDefinition.read(  # noqa: E731
        {"name": "Plan", "description": "A plan.", "steps": steps(*names)}
    )
    plan = register_plan("plan", read_plan("one"), author=ada)
    roll_out(ada, update_plan(read(plan), read_plan("one", "two"), author=ada, as_candidate=True), 100)
    receipt = accept(ada.principal, read(plan), said())
    assert begin(receipt.run).agent.current_version.number == 2
    PROMOTE.perform(ada.principal, Rollout.objects.get())
    assert len(read(plan).current_version.content["steps"]) == 2


def test_unusable_candidate_is_not_promoted(ada, agent):
    other = clerk("other")
    rollout = roll_out(ada, candidate(agent, agents=[other.slug]), 10)
    other.delete()
    with pytest.raises(Unusable):
        PROMOTE.perform(ada.principal, rollout)
    assert read(agent).rollout == rollout
