"""An author's module is type-checked against agentkit, and what is wrong with it is said in one sentence."""

import sys

import pytest

from agentkit import HandlerError, InputRequired, ReceivedArtifact, ReferencedTask, load_handler, testing
from tests.agentkit import author_example
from tests.agentkit.author_example import Ask, Picky, Travel, Trip, refine, shout


def test_an_authors_file_is_clean_under_strict_mypy(tmp_path, type_checked):
    code, told = type_checked(tmp_path, [author_example.__file__])
    assert code == 0, told


def test_mypy_finds_an_authors_mistakes(tmp_path, type_checked):
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from agentkit import Completed, InputRequired, SkillHandler, TaskContext, skill\n\n\n"
        "class Wrong(SkillHandler):\n"
        "    @skill(tagz=['a'])\n"
        "    async def one(self, task: TaskContext) -> Completed:\n"
        "        task.progress(3)\n"
        "        return InputRequired('?', slot=3)\n"
    )
    code, told = type_checked(tmp_path, [wrong])
    assert code == 1
    for mistake in ('"tagz"', 'to "progress"', 'argument "slot"', "Incompatible return value", "unused-coroutine"):
        assert mistake.lower() in told.lower(), told


def test_a_language_model_s_function_has_the_type_of_its_output(tmp_path, type_checked):
    typed = tmp_path / "typed.py"
    typed.write_text(
        "from agentkit.llm import LlmFunction\n\n"
        "words = LlmFunction('Say something.')\n"
        "numbers = LlmFunction('Count.', list[int])\n\n\n"
        "async def right() -> tuple[str, list[int]]:\n"
        "    return await words(None, 'a'), await numbers(None, 'b')\n\n\n"
        "async def wrong() -> int:\n"
        "    return await words(None, 'a')\n"
    )
    code, told = type_checked(tmp_path, [typed])
    assert (code, told.count("error:")) == (1, 1), told
    assert 'typed.py:12: error: Incompatible return value type (got "str", expected "int")' in told


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


async def test_a_refined_artifact_keeps_its_name_and_gets_an_id_of_its_own():
    old = ReceivedArtifact("a1", "poem.md", "A poem", [{"text": "long", "mediaType": "text/markdown"}], [])
    run = await testing.run(refine, "shorter", references=[ReferencedTask("t", "completed", [], [old])])
    (new,) = run.artifacts
    assert (new.name, new.description) == (old.name, old.description)
    assert new.parts == [{"text": "shorter", "mediaType": "text/markdown"}]
    assert new.artifact_id != old.artifact_id
    assert old.refined({"n": 1}).parts == [{"data": {"n": 1}}]
    assert old.refined([{"text": "as it is"}]).parts == [{"text": "as it is"}]
    picture = ReceivedArtifact("a2", "p.png", "", [{"raw": "AA==", "filename": "p.png", "mediaType": "image/png"}], [])
    assert picture.refined(b"\0").parts == picture.parts


MODULES = {
    "def on_request(self, task:\n  return": ("SyntaxError", "broken.py, line"),
    "import nowhere.to_be_found": ("No module named 'nowhere'",),
    "from agentkit import Agent": ("ImportError", "cannot import name 'Agent'"),
    "raise RuntimeError('no\\nkey')": ("RuntimeError: no key",),
    "raise SystemExit(3)": ("SystemExit: 3",),
    "{}['key']": ("KeyError: 'key'",),
    "class Other: ...": ("has no 'Mine'", "after the colon"),
    "class Mine: ...": ("SkillHandler or a function",),
    "from agentkit import SkillHandler\nclass Mine(SkillHandler): ...": ("Mine does nothing yet",),
    "from agentkit import SkillHandler\nclass Mine(SkillHandler):\n  def on_request(self): ...": (
        "must define on_request(self, task)",
    ),
    "from agentkit import SkillHandler\nclass Mine(SkillHandler):\n  on_request = 3": ("on_request must be a method",),
    "from agentkit import SkillHandler, skill\nclass Mine(SkillHandler):\n  @skill()\n  def a(self): ...": (
        "must define a(self, task)",
    ),
    "from agentkit import SkillHandler, skill\nclass Mine(SkillHandler):\n  @skill\n  def a(self, task): ...": (
        "parentheses",
    ),
    "import abc\nfrom agentkit import SkillHandler\nclass Mine(SkillHandler, abc.ABC):\n"
    "  def on_request(self, task): ...\n  @abc.abstractmethod\n  def model(self): ...": ("is abstract: define model",),
    "from agentkit import SkillHandler\nclass Mine(SkillHandler):\n  def __init__(self, key): ...\n"
    "  def on_request(self, task): ...": ("without arguments",),
    "import os\nfrom agentkit import SkillHandler\nclass Mine(SkillHandler):\n"
    "  def __init__(self): self.key = os.environ['NO_SUCH_KEY']\n  def on_request(self, task): ...": (
        "cannot be created: KeyError: 'NO_SUCH_KEY'",
    ),
    "from agentkit import SkillHandler\nclass Mine(SkillHandler):\n  def on_request(self, task): ...\n"
    "  def on_input_received(self, task, slot: 'Nowhere'): ...": ("annotations", "'Nowhere' is not defined"),
    "def Mine(): ...": ("must take a parameter",),
}


@pytest.mark.parametrize("source", MODULES)
def test_what_is_wrong_with_a_module_is_one_clear_sentence(source, tmp_path, monkeypatch):
    (tmp_path / "broken.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "broken", raising=False)
    with pytest.raises(HandlerError) as refused:
        load_handler("broken:Mine")
    told = str(refused.value)
    for words in MODULES[source]:
        assert words in told
    assert "\n" not in told
    assert told.endswith(".") or ":" in told


@pytest.mark.parametrize("path", ["../agents.py:Mine", "agents.py:Mine:more", ".agents:Mine", "a-b:Mine", "a..b:Mine"])
def test_a_path_that_is_no_dotted_path_says_how_to_write_it(path):
    with pytest.raises(HandlerError, match=r"write it as package\.module:Name"):
        load_handler(path)


def test_a_package_that_is_not_on_the_path_says_how_to_put_it_there():
    with pytest.raises(HandlerError, match=r"No module named 'absent'.*PYTHONPATH"):
        load_handler("absent.agents:Mine")
