"""Ada, an agent without code that reads and changes memory, and how its turns begin."""

import pytest

from apps.agents.definitions import Definition
from apps.agents.registration import register_model
from apps.conversations.sessions import commands
from apps.engine import accept
from apps.optional.memory.models import MemoryEntry
from apps.optional.memory.remembering import Source, save
from tests.working import begin


@pytest.fixture
def helper(db):
    return register_model("helper", Definition(name="Helper", description="Helps.", instructions="Help the user."))


@pytest.fixture
def known(ada):
    """Makes an entry of Ada's, or of another person's."""

    def entry(text, principal=None, source=None, **fields):
        return save(principal or ada.principal, MemoryEntry(text=text, **fields), source)

    return entry


@pytest.fixture
def session(ada, helper):
    return commands.create_session(ada.principal, helper).context


@pytest.fixture
def asked(ada, helper, said):
    """The turn of a message in a session."""

    def turn(context, principal=None, agent=None, task=None):
        who, more = principal or ada.principal, {"taskId": str(task)} if task else {}
        message = said(contextId=context.name_for(who), **more)
        return begin(accept.accept(who, agent or helper, message).run)

    return turn


@pytest.fixture
def writer(helper, session):
    return Source(helper, session.pk, 1)


def texts_of(turn):
    return [one["text"] for one in turn.told.get("user_memory", {}).get("entries", [])]
