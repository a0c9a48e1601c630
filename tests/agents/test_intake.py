"""What files an agent takes, as its composer says it."""

import pytest

from agentkit.llm.reading import MODEL_INPUTS
from apps.agents.intake import intake_of
from apps.agents.media_types import Intake
from apps.agents.models import Agent


@pytest.mark.parametrize(
    ("modes", "words"),
    [
        (["text/plain"], "text"),
        (["text/*", "application/json", "image/png", "image/webp"], "text and pictures"),
        (list(MODEL_INPUTS), "text, pictures, PDFs and Office documents"),
        (["text/csv", "application/json"], "tables (CSV) and JSON"),
        (["application/zip", "audio/*"], "sound and .zip files"),
        (["text/plain", "*/*"], ""),
    ],
)
def test_media_types_in_words(modes, words):
    assert Intake(modes).words == words


def test_a_file_dialog_offers_code_where_any_text_is_taken():
    assert {"text/*", ".go", "image/png"} <= set(Intake(["text/*", "image/png"]).accept.split(","))
    assert set(Intake(["text/csv"]).accept.split(",")) == {"text/csv", ".csv"}
    assert Intake(["*/*"]).accept == ""


@pytest.mark.django_db
def test_a_model_that_sees_no_pictures_is_given_none(settings):
    agent = Agent(kind="model", slug="clerk", name="Clerk", input_modes=["text/*", "image/png"])
    agent.skills = [{"id": "table", "inputModes": ["text/csv", "application/pdf"]}]
    settings.LLM_MODEL = "deepseek-chat"
    assert intake_of(agent).words == "text and PDFs"
    assert "image/png" in intake_of(agent, {"model": "gpt-4o@work"}).modes
