"""Recordings are written down and texts read by the connected model."""

import pytest

from apps.budgets import spending
from apps.budgets.models import Budget
from apps.optional.voice import endpoints
from parley import db
from tests.model_agents.conftest import endpoint  # noqa: F401 a fixture
from tests.model_agents.endpoint import refuses, sends

pytestmark = pytest.mark.django_db(transaction=True)

MP3 = b"ID3\x04sound"
SPEECH, WRITTEN = "/voice/speech", "/voice/transcriptions"


@pytest.fixture
def speech(endpoint, settings):  # noqa: F811
    settings.TRANSCRIPTION_MODEL, settings.SPEECH_MODEL, settings.SPEECH_VOICE = "listens-1", "speaks-1", "alloy"
    return endpoint


async def test_recording_becomes_words(ada_calls, speech):
    speech.replies = [sends(b'{"text": " Good morning. "}')]
    answer = await ada_calls.post(f"{WRITTEN}?language=de", b"OggS", content_type="audio/webm;codecs=opus")
    assert (answer.status, answer.body) == (200, {"text": "Good morning."})
    form = speech.requests[0]["form"]
    assert all(part in form for part in (b"listens-1", b"OggS", b"recording.webm", b'"language"\r\n\r\nde'))


async def test_text_becomes_sound(ada_calls, speech):
    speech.replies = [sends(MP3, "audio/mpeg")]
    answer = await ada_calls.post(SPEECH, {"text": "Hello", "voice": "nova"})
    assert (answer.status, answer.content, answer.headers["content-type"]) == (200, MP3, "audio/mpeg")
    assert speech.requests == [{"model": "speaks-1", "voice": "nova", "input": "Hello", "response_format": "mp3"}]


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [(b"", "audio/webm", 422), (b"x", "text/plain", 415), (b"x" * 101, "audio/webm", 413)],
    ids=["nothing", "no recording", "too large"],
)
async def test_unfit_recording_is_refused(ada_calls, speech, settings, content, kind, status):
    settings.MAX_REQUEST_BYTES = 100
    assert (await ada_calls.post(WRITTEN, content, content_type=kind)).status == status
    assert speech.requests == []


async def test_failure_of_model_keeps_secrets(ada_calls, speech):
    speech.replies = [refuses(401, "wrong key sk-1")]
    answer = await ada_calls.post(SPEECH, {"text": "Hello"})
    assert answer.status == 503
    assert b"sk-1" not in answer.content


async def test_spent_budget_allows_no_speech(ada, ada_calls, speech):
    await db.run(Budget.objects.create, workspace_id=ada.principal.workspace_id, token_limit=0)
    spending.forget()
    answer = await ada_calls.post(SPEECH, {"text": "Hello"})
    assert "budget" in answer.body["detail"]
    assert speech.requests == []


async def test_unknown_callers_cannot_use_it(anybody, speech):
    assert (await anybody.post(SPEECH, {"text": "Hello"})).status == 401
    assert speech.requests == []


async def test_without_models_it_is_unavailable(ada_calls, settings):
    settings.TRANSCRIPTION_MODEL = settings.SPEECH_MODEL = endpoints.OFF
    assert (await ada_calls.post(SPEECH, {"text": "Hello"})).status == 503


def test_first_fitting_model_is_offered(settings, monkeypatch):
    settings.TRANSCRIPTION_MODEL, settings.SPEECH_MODEL = "", endpoints.OFF
    monkeypatch.setattr(endpoints.current.Snapshot, "names", ["gpt-5-mini", "gpt-4o-mini-transcribe", "tts-1"])
    assert (endpoints.listener(), endpoints.speaker()) == ("gpt-4o-mini-transcribe", "")
    settings.SPEECH_MODEL = ""
    assert endpoints.speaker() == "tts-1"
