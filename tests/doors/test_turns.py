"""What follows a message, read from the record."""

import pytest

from agentkit import AuthRequired, Completed
from apps.doors import turns
from apps.doors.turns import End, Text
from apps.engine import accept
from apps.record.execution import Run
from apps.record.models import Context
from tests.working import begin, end

pytestmark = pytest.mark.django_db


def read(sent):
    return [piece for _, piece in turns.recorded(Context.objects.get(pk=sent.context), sent.task, sent.index)]


def test_turn_after_a_credential_ends_with_answer(ada, echo, said):
    sent = accept.accept(ada.principal, echo, said())
    end(begin(sent.run), AuthRequired("A key, please.", service="mail"))
    assert read(sent)[-1].state == "auth-required"
    assert accept.resume(sent.task, because="credential")
    assert not isinstance(read(sent)[-1], End), "it works again"
    end(begin(Run.objects.get(state="queued").pk), Completed("Done with it."))
    pieces = read(sent)
    assert [one.state for one in pieces if isinstance(one, End)] == ["completed"]
    assert "Done with it." in "".join(one.text for one in pieces if isinstance(one, Text))
