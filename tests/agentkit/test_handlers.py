"""Classes and all kinds of functions are agents, described by their author."""

import sys
import types

from agentkit import (
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


async def test_an_instance_a_class_and_what_a_path_names_are_handlers(monkeypatch):
    handler = Shout()
    assert as_handler(handler) is handler
    assert (await testing.run(Shout, "hello")).said == "HELLO"
    module = types.ModuleType("my_agents")
    module.Shout = Shout
    monkeypatch.setitem(sys.modules, "my_agents", module)
    assert isinstance(load_handler("my_agents:Shout"), Shout)


def test_an_undescribed_class_is_described_by_its_name_and_docstring():
    handler = as_handler(Shout)
    assert (handler.name, handler.description) == ("Shout", "Says it louder.")

    class Silent(Shout):
        name = "Silence"

    assert (as_handler(Silent).name, as_handler(Silent).description) == ("Silence", "")


async def test_a_function_gets_what_its_annotation_asks_for_whatever_the_parameter_is_called():
    def by_sync_context(t: SyncTaskContext):
        return f"sync {t.message.text}"

    async def by_context(t: TaskContext):
        return f"async {t.message.text}"

    async def text_called_task(task: str):
        return f"str {task}"

    def only_a_type_checker_resolves(t: "agentkit.TaskContext", other: "Unknown" = None):  # noqa: F821
        return f"unresolved {t.message.text}"

    functions = (by_sync_context, by_context, text_called_task, only_a_type_checker_resolves)
    said = [(await testing.run(function, "hi")).said for function in functions]
    assert said == ["sync hi", "async hi", "str hi", "unresolved hi"]


def test_a_function_is_described_by_its_decorator():
    skill = Skill("sum", "Sum", "Adds numbers", ["maths"], examples=["1+1"], input_modes=["text/*"])

    @agent(name="Adder", skills=[skill], retry_safe=True, time_limit=5, response_type=ResponseType.MESSAGE)
    def add_all(text):
        """Adds the numbers."""

    handler = as_handler(add_all)
    assert (handler.name, handler.description, handler.version) == ("Adder", "Adds the numbers.", "1.0.0")
    assert (handler.retry_safe, handler.time_limit, handler.attempts) == (True, 5, 3)
    assert handler.select_response_type(testing.user_message("1")) is ResponseType.MESSAGE
    labels = {"id": "sum", "name": "Sum", "description": "Adds numbers", "tags": ["maths"]}
    assert [s.wire for s in handler.skills] == [{**labels, "examples": ["1+1"], "inputModes": ["text/*"]}]
    assert as_handler(lambda text: text).select_response_type(testing.user_message("1")) is ResponseType.TASK
