"""The server's start and end are answered, so that it neither warns nor waits."""

import pytest
from asgiref.testing import ApplicationCommunicator

from apps.accounts.audit_models import AuditAction, AuditEntry
from apps.accounts.refusals import refusals
from parley import db
from parley.asgi import application

pytestmark = pytest.mark.django_db(transaction=True)


async def test_ending_server_writes_what_it_counted(rf):
    server = ApplicationCommunicator(application, {"type": "lifespan"})
    await server.send_input({"type": "lifespan.startup"})
    assert (await server.receive_output())["type"] == "lifespan.startup.complete"
    for _ in range(3):
        await db.run(refusals.count, AuditAction.SIGN_IN_REFUSED, "ada@example.org", rf.get("/"))
    await server.send_input({"type": "lifespan.shutdown"})
    assert (await server.receive_output(timeout=20))["type"] == "lifespan.shutdown.complete"
    entries = AuditEntry.objects.filter(details__repeated=2)
    assert await db.run(entries.count) == 1
