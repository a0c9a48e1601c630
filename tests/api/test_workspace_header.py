"""`X-Parley-Workspace` chooses a workspace for one request."""

import pytest

import db
from apps.accounts import workspaces
from apps.accounts.models import Workspace
from apps.features.sessions import commands

pytestmark = pytest.mark.django_db(transaction=True)

HEADER = "X-Parley-Workspace"


@pytest.fixture
def team(ada, works) -> Workspace:
    made = workspaces.create_workspace(ada.principal, "Team")
    commands.create_session(ada.principal, works, title="At home")
    commands.create_session(ada.principal_in(made.pk), works, title="With the team")
    return made


async def titles(caller, headers=None):
    return [one["title"] for one in (await caller.ask("GET", "/sessions", headers=headers or {})).body["items"]]


async def test_it_counts_for_one_request_and_is_not_kept(ada, team, ada_browses):
    assert await titles(ada_browses) == ["At home"]
    assert await titles(ada_browses, {HEADER.lower(): str(team.pk)}) == ["With the team"]
    assert await titles(ada_browses) == ["At home"]


async def test_it_names_a_workspace_of_the_caller_and_of_the_key(ada, team, bob, ada_calls, ada_browses):
    theirs = bob.personal_workspace.pk
    for caller, named in ((ada_browses, theirs), (ada_browses, "x"), (ada_browses, 2**70), (ada_calls, team.pk)):
        answer = await caller.ask("GET", "/sessions", headers={HEADER.lower(): str(named)})
        assert (answer.status, answer.code) == (403, "forbidden"), named
    home = {HEADER.lower(): str(await db.run(lambda: ada.personal_workspace.pk))}
    assert await titles(ada_calls, home) == ["At home"]
