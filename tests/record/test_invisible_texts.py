"""Messages and titles that show nothing are refused at every way in."""

import pytest

from apps.engine import accept
from apps.features.sessions import commands
from apps.record.content import composing
from apps.record.content.parts import is_blank
from apps.record.errors import InvalidParams
from apps.record.models import Context

pytestmark = pytest.mark.django_db

NOTHING = ["\u200b", "\u2066\u202e", "\u3164\uffa0", "\u2800", "\U000e0041\U000e007f", " \ufeff\n\u00ad", "\ufe0f"]
SOMETHING = ["a\u200b", "👩\u200d💻", "می\u200cخواهم", ".", "\u2801"]


@pytest.mark.parametrize("text", NOTHING)
def test_a_message_of_invisible_characters_is_refused(ada, echo, said, text):
    with pytest.raises(InvalidParams):
        composing.parts_of(text)
    assert not Context.objects.exists()


@pytest.mark.parametrize("text", NOTHING)
def test_a_title_of_invisible_characters_is_refused(ada, echo, text):
    with pytest.raises(InvalidParams):
        commands.create_session(ada.principal, echo, title=text)
    session = commands.create_session(ada.principal, echo, title="Seen").context
    with pytest.raises(InvalidParams):
        commands.rename_session(ada.principal, session.pk, text)


def test_invisible_characters_beside_others_are_taken(ada, echo, said):
    assert not any(map(is_blank, SOMETHING))
    for text in SOMETHING:
        accept.accept(ada.principal, echo, said(text))
