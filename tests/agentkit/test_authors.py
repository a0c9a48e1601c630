"""Classes and all kinds of functions are agents as their authors wrote them; mistakes are one sentence."""

import pytest

from agentkit import (
    HandlerError,
    InputRequired,
    ReceivedArtifact,
    ReferencedTask,
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
from tests.agentkit.author_example import Ask, Picky, Travel, Trip, refine, shout


async def test_the_authors_example_works():
    asked = await testing.run(Travel, "Book me a trip")
    assert asked.skill == "book"
    data = {"role": "ROLE_USER", "parts": [{"data": {"destination": "Rome", "travellers": 2}}]}
    to_pay = await testing.run(Travel, data, slot=Trip, skill="book", memory=asked.memory)
    booked = await testing.run(Travel, "paid", slot=Ask.PAYMENT, skill="book", memory=to_pay.memory)
    assert booked.said == "Booked Rome"
    session: dict = {}
    assert (await testing.run(Travel, "where?", session=session)).text == "Rome"
    assert session == {"asked": ["where?"]}
    assert (await testing.run(Travel, "Sing!")).said == "I only do travel."
    assert isinstance((await testing.run(Picky, "x")).outcome, InputRequired)
    assert (await testing.run(Picky, data, slot=Ask.PAYMENT)).said == "payment for Rome"
    assert (await testing.run(shout, "hello")).said == "HELLOSAID"


async def test_a_refined_artifact_keeps_its_name():
    old = ReceivedArtifact("a1", "poem.md", "A poem", [{"text": "long", "mediaType": "text/markdown"}], [])
    run = await testing.run(refine, "shorter", references=[ReferencedTask("t", "completed", [], [old])])
    (new,) = run.artifacts
    assert (new.name, new.description) == (old.name, old.description)
    assert new.parts == [{"text": "shorter", "mediaType": "text/markdown"}]
    assert new.artifact_id != old.artifact_id
    assert old.refined({"n": 1}).parts == [{"data": {"n": 1}}]


class Shout(SkillHandler):
    """Says it
    louder.

    And more that is nobody's business.
    """

    def on_request(self, task):
        return task.message.text.upper()


async def test_classes_instances_and_paths_are_handlers():
    handler = Shout()
    assert as_handler(handler) is handler
    assert (await testing.run(Shout, "hello")).said == "HELLO"
    assert isinstance(load_handler(f"{__name__}:Shout"), Shout)
    assert (handler.name, handler.description) == ("Shout", "Says it louder.")


async def test_a_function_gets_what_its_annotation_asks_for():
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


OF_A_CLASS = "from agentkit import SkillHandler, skill\nclass Mine(SkillHandler):\n"
MODULES = {
    "def on_request(self, task:\n  return": ("SyntaxError", "broken0.py, line"),
    "from agentkit import Agent": ("ImportError", "cannot import name 'Agent'"),
    "raise SystemExit(3)": ("SystemExit: 3",),
    "class Other: ...": ("has no 'Mine'", "after the colon"),
    "Mine = 3": ("SkillHandler or a function",),
    "def Mine(): ...": ("must take a parameter",),
    "from agentkit import agent\n@agent(tempo=3)\ndef Mine(text): ...": ("does not know tempo",),
    "from agentkit import agent\n@agent(response_type='mesage')\ndef Mine(text): ...": ("Did you mean 'message'?",),
    f"{OF_A_CLASS}  respnse_type = 'message'\n  def on_request(self, task): ...": ("Did you mean response_type?",),
    f"{OF_A_CLASS}  def on_request(self, task): ...\n  def on_input_recieved(self, task): ...": (
        "Mine has on_input_recieved",
        "Did you mean on_input_received?",
    ),
    f"{OF_A_CLASS}  pass": ("Mine does nothing yet", "define on_request"),
    f"{OF_A_CLASS}  def on_request(self): ...": ("must define on_request(self, task)",),
    f"{OF_A_CLASS}  @skill\n  def a(self, task): ...": ("parentheses",),
    f"{OF_A_CLASS}  def __init__(self, key): ...\n  def on_request(self, task): ...": ("without arguments",),
    f"import os\n{OF_A_CLASS}  def __init__(self): os.environ['NO_SUCH_KEY']\n  def on_request(self, task): ...": (
        "cannot be created: KeyError: 'NO_SUCH_KEY'",
    ),
    f"{OF_A_CLASS}  def on_request(self, task): ...\n  def on_input_received(self, task, slot: 'Nowhere'): ...": (
        "annotations",
        "'Nowhere' is not defined",
    ),
}


def test_a_wrong_module_is_told_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for number, (source, words) in enumerate(MODULES.items()):
        (tmp_path / f"broken{number}.py").write_text(source)
        with pytest.raises(HandlerError) as refused:
            load_handler(f"broken{number}:Mine")
        told = str(refused.value)
        assert all(word in told for word in words), (source, told)
        assert "\n" not in told
        assert told.endswith((".", "?")) or ":" in told, told


def test_a_wrong_path_says_how_to_write_it():
    for path in ("", "my_agents:", "my_agents.Shout", "../agents.py:Mine", ".agents:Mine", "a-b:Mine"):
        with pytest.raises(HandlerError, match=r"write it as package\.module:Name"):
            load_handler(path)
    with pytest.raises(HandlerError, match=r"No module named 'absent'.*PYTHONPATH"):
        load_handler("absent.agents:Mine")
