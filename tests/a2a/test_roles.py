"""What a role in a workspace permits to keys of that workspace."""

import pytest

import db
from apps.accounts.models import ApiKey
from apps.accounts.permissions import Role
from apps.record.models import Context
from tests.a2a.calling import Caller, message
from tests.members import member

pytestmark = pytest.mark.django_db(transaction=True)


async def test_viewers_see_an_agents_tasks_and_send_nothing(worker, ada, bob, echo):
    await db.run(member, bob, ada, Role.VIEWER)
    key = (await db.run(ApiKey.issue, bob, "ci", workspace_id=ada.personal_workspace.pk))[1]
    calls = Caller(echo.slug, key)
    assert (await calls.call("ListTasks", {})).result["tasks"] == []
    refused = await calls.send(message("hello"))
    assert (refused.status, "Member" in refused.error["message"]) == (403, True)
    assert not await Context.objects.aexists()
    await db.run(member, bob, ada, Role.MEMBER)
    assert "result" in (await calls.send(message("hello"))).body
