"""Hand-written queries: the caller and the called agent in one statement."""

from __future__ import annotations

from allauth.idp.oidc.models import Client, Token
from django.contrib.sessions.models import Session

from apps.accounts.models import ApiKey, Membership, User, Workspace
from apps.agents.models import Agent
from parley.db.sql import Query


def _user_session_and_agent(
    user: User | None, membership: Membership | None, session: Session | None, agent: Agent | None
) -> tuple[User | None, Session | None, Agent | None]:
    if user is not None and membership is not None:
        user.membership = membership
    return user, session, agent


def _token_and_agent(
    token: Token | None, client: Client | None, user: User | None, membership: Membership | None, agent: Agent | None
) -> tuple[Token | None, Client | None, User | None, Agent | None]:
    if user is not None and membership is not None:
        user.membership = membership
    return token, client, user, agent


AGENT_BY_SLUG = Query[Agent]("SELECT {agent} FROM {agent.table} WHERE agent.slug = %s", agent=Agent)

KEY_AND_AGENT = Query[tuple[ApiKey | None, Agent | None]](
    "SELECT {api_key}, {person}, {member}, {agent} FROM (SELECT 1) AS always "
    "LEFT JOIN {api_key.table} ON api_key.prefix = %s LEFT JOIN {person.table} ON person.id = api_key.user_id "
    "LEFT JOIN {member.table} ON member.user_id = api_key.user_id AND member.workspace_id = api_key.workspace_id "
    "LEFT JOIN {agent.table} ON agent.slug = %s",
    attached={"person": "api_key.user", "member": "api_key.membership"},
    api_key=ApiKey,
    person=User,
    member=Membership,
    agent=Agent,
)
"""By the key's prefix and the agent's slug; None for what there is not."""

USER_SESSION_AND_AGENT = Query(
    "SELECT {person}, {member}, {session}, {agent} FROM (SELECT 1) AS always "
    "LEFT JOIN {person.table} ON person.id = %s LEFT JOIN {personal.table} ON personal.personal_of_id = person.id "
    "LEFT JOIN {member.table} ON member.user_id = person.id "
    "AND member.workspace_id = COALESCE(person.current_workspace_id, personal.id) "
    "LEFT JOIN {session.table} ON session.session_key = %s LEFT JOIN {agent.table} ON agent.slug = %s",
    _user_session_and_agent,
    person=User,
    personal=Workspace,
    member=Membership,
    session=Session,
    agent=Agent,
)
"""By the user's id, the session's key and the agent's slug; None for what there is not."""

TOKEN_AND_AGENT = Query(
    "SELECT {token}, {client}, {person}, {member}, {agent} FROM (SELECT 1) AS always "
    "LEFT JOIN {token.table} ON token.type = 'at' AND token.hash = %s "
    "LEFT JOIN {client.table} ON client.id = token.client_id "
    "LEFT JOIN {person.table} ON person.id = COALESCE(token.user_id, client.owner_id) "
    "LEFT JOIN {personal.table} ON personal.personal_of_id = person.id "
    "LEFT JOIN {member.table} ON member.user_id = person.id AND member.workspace_id = personal.id "
    "LEFT JOIN {agent.table} ON agent.slug = %s",
    _token_and_agent,
    token=Token,
    client=Client,
    person=User,
    personal=Workspace,
    member=Membership,
    agent=Agent,
)
"""By the hash of an OAuth access token and the agent's slug; None for what there is not."""
