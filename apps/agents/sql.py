"""Hand-written queries: the caller and the called agent in one statement."""

from __future__ import annotations

from django.contrib.sessions.models import Session

from apps.accounts.models import ApiKey, User, Workspace
from apps.agents.models import Agent
from db.sql import Query


def _key_and_agent(key: ApiKey | None, user: User | None, agent: Agent | None) -> tuple[ApiKey | None, Agent | None]:
    if key is not None and user is not None:
        key.user = user
    return key, agent


def _user_session_and_agent(
    user: User | None, personal: Workspace | None, session: Session | None, agent: Agent | None
) -> tuple[User | None, Session | None, Agent | None]:
    if user is not None and personal is not None:
        user.personal_workspace = personal
    return user, session, agent


AGENT_BY_SLUG = Query[Agent]("SELECT {agent} FROM {agent.table} WHERE agent.slug = %s", agent=Agent)

KEY_AND_AGENT = Query(
    "SELECT {api_key}, {person}, {agent} FROM (SELECT 1) AS always "
    "LEFT JOIN {api_key.table} ON api_key.prefix = %s LEFT JOIN {person.table} ON person.id = api_key.user_id "
    "LEFT JOIN {agent.table} ON agent.slug = %s",
    _key_and_agent,
    api_key=ApiKey,
    person=User,
    agent=Agent,
)
"""By the key's prefix and the agent's slug; None for what there is not."""

USER_SESSION_AND_AGENT = Query(
    "SELECT {person}, {personal}, {session}, {agent} FROM (SELECT 1) AS always "
    "LEFT JOIN {person.table} ON person.id = %s LEFT JOIN {personal.table} ON personal.personal_of_id = person.id "
    "LEFT JOIN {session.table} ON session.session_key = %s LEFT JOIN {agent.table} ON agent.slug = %s",
    _user_session_and_agent,
    person=User,
    personal=Workspace,
    session=Session,
    agent=Agent,
)
"""By the user's id, the session's key and the agent's slug; None for what there is not."""
