"""A class or any kind of function is an agent, and what is wrong with one is said in a sentence."""

import sys
import types

import pytest

from agentkit import (
    HandlerError,
    Message,
    ResponseType,
    Skill,
    SkillHandler,
    SyncTaskContext,
    TaskContext,
    agent,
    as_handler,
    load_handler,
    testing,
)


class Shout(SkillHandler):
    """Says it
    louder.

    And more that is nobody's business.
    """

    def on_request(self, task):
        return task.message.text.upper()


async def test_an_instance_and_a_class_are_handlers():
    handler = Shout()
    assert as_handler(handler) is handler
    assert (await testing.run(Shout, "hello")).said == "HELLO"


def test_an_undescribed_class_is_described_by_its_name_and_docstring():
    handler = as_handler(Shout)
    assert (handler.name, handler.description) == ("Shout", "Says it louder.")

    class Silent(Shout):
        name = "Silence"

    assert (as_handler(Silent).name, as_handler(Silent).description) == ("Silence", "")


async def test_a_function_gets_what_its_parameter_asks_for():
    def by_text(question):
        return f"text {question}"

    def by_message(message):
        return f"message {message.text}"

    def by_annotation(said: Message):
        return f"annotated {said.text}"

    def by_task(task):
        return f"task {task.message.text}"

    def by_sync_context(t: SyncTaskContext):
        return f"sync {t.message.text}"

    async def by_context(t: TaskContext):
        return f"async {t.message.text}"

    async def text_called_task(task: str):
        return f"str {task}"

    functions = (by_text, by_message, by_annotation, by_task, by_sync_context, by_context, text_called_task)
    said = [(await testing.run(function, "hi")).said for function in functions]
    assert said == ["text hi", "message hi", "annotated hi", "task hi", "sync hi", "async hi", "str hi"]


async def test_annotations_that_only_a_type_checker_can_resolve_are_understood():
    def as_text(t: "agentkit.TaskContext", other: "Unknown" = None):  # noqa: F821
        return t.message.text

    assert (await testing.run(as_text, "hi")).said == "hi"


async def test_sync_and_async_generators_stream_their_text():
    def words(text):
        yield from text.split()

    async def async_words(text):
        for word in text.split():
            yield word

    for function in (words, async_words):
        run = await testing.run(function, "a b c")
        assert (run.text, run.said, len(run.emissions)) == ("abc", "abc", 3)


def test_a_function_is_described_by_its_decorator():
    skill = Skill("sum", "Sum", "Adds numbers", ["maths"], examples=["1+1"], input_modes=["text/*"])

    @agent(name="Adder", skills=[skill], retry_safe=True, time_limit=5, response_type=ResponseType.MESSAGE)
    def add_all(text):
        """Adds the numbers."""

    handler = as_handler(add_all)
    assert (handler.name, handler.description, handler.version) == ("Adder", "Adds the numbers.", "1.0.0")
    assert (handler.retry_safe, handler.time_limit, handler.attempts) == (True, 5, 3)
    assert handler.select_response_type(testing.user_message("1")) is ResponseType.MESSAGE
    assert [s.wire for s in handler.skills] == [
        {
            "id": "sum",
            "name": "Sum",
            "description": "Adds numbers",
            "tags": ["maths"],
            "examples": ["1+1"],
            "inputModes": ["text/*"],
        }
    ]
    assert as_handler(lambda text: text).select_response_type(testing.user_message("1")) is ResponseType.TASK


def test_functions_that_cannot_be_called_say_what_to_change():
    with pytest.raises(HandlerError, match="must take a parameter"):
        as_handler(lambda: "x")
    with pytest.raises(HandlerError, match="default values"):
        as_handler(lambda text, more: "x")
    with pytest.raises(HandlerError, match="does not know tempo"):
        agent(tempo=3)


def test_things_that_are_no_agents_say_what_one_is():
    class Empty(SkillHandler):
        pass

    class Choosy(Shout):
        def __init__(self, flavour):
            self.flavour = flavour

    with pytest.raises(HandlerError, match="define on_request"):
        as_handler(Empty)
    with pytest.raises(HandlerError, match="without arguments"):
        as_handler(Choosy)
    for thing in ("text", 3, dict):
        with pytest.raises(HandlerError, match="SkillHandler or a function"):
            as_handler(thing)


def test_a_handler_is_found_by_its_path(monkeypatch):
    module = types.ModuleType("my_agents")
    module.Shout = Shout
    monkeypatch.setitem(sys.modules, "my_agents", module)
    assert isinstance(load_handler("my_agents:Shout"), Shout)
    with pytest.raises(HandlerError, match="has no 'Whisper'"):
        load_handler("my_agents:Whisper")


@pytest.mark.parametrize("path", ["", "my_agents", "my_agents:", ":Shout", "my_agents.Shout"])
def test_a_path_without_both_halves_says_how_to_write_it(path):
    with pytest.raises(HandlerError, match=r"package\.module:Name"):
        load_handler(path)


def test_a_module_that_cannot_be_imported_says_why(tmp_path, monkeypatch):
    (tmp_path / "broken_agents.py").write_text("1/0")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(HandlerError, match="division by zero"):
        load_handler("broken_agents:Any")
    with pytest.raises(HandlerError, match="No module named 'absent_agents'"):
        load_handler("absent_agents:Any")
