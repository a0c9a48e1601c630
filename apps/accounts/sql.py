"""Hand-written queries for authentication."""

from __future__ import annotations

from allauth.idp.oidc.models import Client, Token

from apps.accounts.models import ApiKey, Membership, User, Workspace
from parley.db.sql import Query


def _key_with_user(key: ApiKey, user: User, membership: Membership | None) -> ApiKey:
    key.user, key.membership = user, membership
    if membership is not None:
        user.membership = membership
    return key


KEY_BY_PREFIX = Query(
    "SELECT {api_key}, {person}, {member} FROM {api_key.table} JOIN {person.table} ON person.id = api_key.user_id "
    "LEFT JOIN {member.table} ON member.user_id = api_key.user_id AND member.workspace_id = api_key.workspace_id "
    "WHERE api_key.prefix = %s",
    _key_with_user,
    api_key=ApiKey,
    person=User,
    member=Membership,
)


def _with_person_and_workspace(held: Membership, person: User, workspace: Workspace) -> Membership:
    held.user, held.workspace = person, workspace
    return held


MEMBERSHIPS_OF = Query(
    "SELECT {member}, {person}, {workspace} FROM {member.table} JOIN {person.table} ON person.id = member.user_id "
    "JOIN {workspace.table} ON workspace.id = member.workspace_id WHERE member.user_id = %s",
    _with_person_and_workspace,
    member=Membership,
    person=User,
    workspace=Workspace,
)
"""A person's memberships, with the person and the workspaces."""


def _token_with_user(token: Token, client: Client, user: User, membership: Membership) -> tuple[Token, Client, User]:
    user.membership = membership
    return token, client, user


ACCESS_TOKEN = Query(
    "SELECT {token}, {client}, {person}, {member} FROM {token.table} "
    "JOIN {client.table} ON client.id = token.client_id "
    "JOIN {person.table} ON person.id = COALESCE(token.user_id, client.owner_id) "
    "JOIN {personal.table} ON personal.personal_of_id = person.id "
    "JOIN {member.table} ON member.user_id = person.id AND member.workspace_id = personal.id "
    "WHERE token.type = 'at' AND token.hash = %s",
    _token_with_user,
    token=Token,
    client=Client,
    person=User,
    personal=Workspace,
    member=Membership,
)
"""An OAuth access token by its hash, with whom it acts for: its user, or its client's owner, in their own workspace."""
