"""Conversion between threads and the model library's messages."""

from pydantic_ai.messages import BinaryContent, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

from agentkit import Thread, data_part, raw_part, testing, text_part, url_part
from agentkit.llm import LlmWorker, from_model_messages, to_model_messages
from agentkit.llm.conversations import SEEN_FILES
from tests.llm.endpoint import Endpoint, refuses, says

PIXEL = b"\x89PNG\r\n\x1a\n"


def contents(thread: Thread) -> list[object]:
    return [part.content for message in to_model_messages(thread) for part in message.parts]


def test_a_thread_goes_there_and_back():
    thread = Thread().add("user", "Hello").add("agent", "Good day").add("user", "Who are you?")
    messages = to_model_messages(thread)
    assert [type(one) for one in messages] == [ModelRequest, ModelResponse, ModelRequest]
    assert from_model_messages(messages) == thread


def test_calls_of_tools_are_no_words():
    messages = [
        ModelRequest(parts=[UserPromptPart(["Look:", BinaryContent(PIXEL, media_type="image/png")])]),
        ModelResponse(parts=[ToolCallPart("look", {})]),
        ModelResponse(parts=[TextPart("A pixel.")]),
    ]
    assert from_model_messages(messages) == Thread().add("user", "Look:").add("agent", "A pixel.")


def test_data_and_texts_are_words_and_other_files_are_named():
    parts = [
        text_part("See:"),
        data_part({"a": 1}),
        raw_part(b"x,y\n1,2", "t.csv", "text/csv"),
        raw_part(b"", "16-empty.txt", "text/plain"),
        raw_part(b"\0\1", "p.pdf", "application/pdf"),
        url_part("https://a.example/b"),
    ]
    (content,) = contents(Thread().add("user", parts))
    assert content.split("\n\n") == [
        "See:",
        '{"a": 1}',
        "[A file: t.csv, text/csv]\nx,y\n1,2",
        "[A file: 16-empty.txt, text/plain. It is empty.]",
        "[A file: p.pdf, application/pdf, 2 bytes. It is damaged, or protected by a password.]",
        "[A link to a file: https://a.example/b]",
    ]


def test_a_long_text_is_cut_and_a_message_without_anything_says_so():
    (content,) = contents(Thread().add("user", [raw_part(b"x" * 150_000, "t.txt", "text/plain")]))
    assert content.endswith("[the first 100000 of 150000 characters]")
    assert len(content) < 101_000
    assert contents(Thread().add("user", [])) == ["(nothing)"]


def test_the_newest_pictures_of_a_conversation_are_shown():
    image = [raw_part(PIXEL, "p.png", "image/png")]
    thread = Thread()
    for _ in range(SEEN_FILES + 1):
        thread = thread.add("user", image).add("agent", "A pixel.")
    first, _, *others = contents(thread.add("user", "And its color?"))
    assert first == "[A file: p.png, image/png, 8 bytes]"
    shown = ["(nothing)", BinaryContent(PIXEL, media_type="image/png")]
    assert others == [shown, "A pixel."] * SEEN_FILES + ["And its color?"]


async def test_a_model_that_takes_no_pictures_is_told_in_words(endpoint: Endpoint):
    endpoint.replies = [refuses(400, "no images please"), says("I see none.")]
    message = testing.user_message("Look", {"p.png": PIXEL, "t.csv": b"x,y"})
    assert await LlmWorker("Help.").run(message=message) == "I see none."
    shown, told = (one["messages"][-1]["content"] for one in endpoint.requests)
    assert [part["type"] for part in shown] == ["text", "image_url"]
    assert "p.png, image/png, 8 bytes. You cannot see pictures." in told
    assert "x,y" in told


async def test_a_file_that_is_damaged_is_no_end(endpoint: Endpoint):
    for name, described in (
        ("notes.txt", "notes.txt, text/plain, 7 bytes. This file arrived damaged: it is not base64."),
        ("p.png", "p.png, image/png, 7 bytes"),
    ):
        endpoint.replies = [says("ok")]
        broken = {"raw": "no base64!", "filename": name}
        told = testing.user_message({"messageId": "1", "role": "ROLE_USER", "parts": [{"text": "See"}, broken]})
        assert await LlmWorker("Help.").run(message=told) == "ok"
        assert endpoint.said()[-1] == ("user", f"See\n\n[A file: {described}]")
