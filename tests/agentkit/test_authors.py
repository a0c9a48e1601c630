"""An author's module works as written, and its errors are one sentence."""

import pytest

from agentkit import HandlerError, InputRequired, ReceivedArtifact, ReferencedTask, load_handler, testing
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


OF_A_CLASS = "from agentkit import SkillHandler, skill\nclass Mine(SkillHandler):\n"
MODULES = {
    "def on_request(self, task:\n  return": ("SyntaxError", "broken0.py, line"),
    "import nowhere.to_be_found": ("No module named 'nowhere'",),
    "from agentkit import Agent": ("ImportError", "cannot import name 'Agent'"),
    "raise RuntimeError('no\\nkey')": ("RuntimeError: no key",),
    "raise SystemExit(3)": ("SystemExit: 3",),
    "class Other: ...": ("has no 'Mine'", "after the colon"),
    "class Mine: ...": ("SkillHandler or a function",),
    "Mine = 3": ("SkillHandler or a function",),
    "def Mine(): ...": ("must take a parameter",),
    "def Mine(text, more): ...": ("default values",),
    "from agentkit import agent\n@agent(tempo=3)\ndef Mine(text): ...": ("does not know tempo",),
    "from agentkit import agent\n@agent(respons_type='task')\ndef Mine(text): ...": ("Did you mean 'response_type'?",),
    "from agentkit import agent\n@agent(response_type='mesage')\ndef Mine(text): ...": ("Did you mean 'message'?",),
    f"{OF_A_CLASS}  response_type = 'mesage'\n  def on_request(self, task): ...": ("Did you mean 'message'?",),
    f"{OF_A_CLASS}  respnse_type = 'message'\n  def on_request(self, task): ...": ("Did you mean response_type?",),
    f"{OF_A_CLASS}  def on_request(self, task): ...\n  def on_input_recieved(self, task): ...": (
        "Mine has on_input_recieved",
        "Did you mean on_input_received?",
    ),
    f"{OF_A_CLASS}  def on_request(self, task): ...\n  def select_response_type(self): ...": (
        "must define select_response_type(self, message)",
    ),
    f"{OF_A_CLASS}  pass": ("Mine does nothing yet", "define on_request"),
    f"{OF_A_CLASS}  def on_request(self): ...": ("must define on_request(self, task)",),
    f"{OF_A_CLASS}  on_request = 3": ("on_request must be a method",),
    f"{OF_A_CLASS}  @skill()\n  def a(self): ...": ("must define a(self, task)",),
    f"{OF_A_CLASS}  @skill\n  def a(self, task): ...": ("parentheses",),
    "import abc\nfrom agentkit import SkillHandler\nclass Mine(SkillHandler, abc.ABC):\n"
    "  def on_request(self, task): ...\n  @abc.abstractmethod\n  def model(self): ...": ("is abstract: define model",),
    f"{OF_A_CLASS}  def __init__(self, key): ...\n  def on_request(self, task): ...": ("without arguments",),
    f"import os\n{OF_A_CLASS}  def __init__(self): os.environ['NO_SUCH_KEY']\n  def on_request(self, task): ...": (
        "cannot be created: KeyError: 'NO_SUCH_KEY'",
    ),
    f"{OF_A_CLASS}  def on_request(self, task): ...\n  def on_input_received(self, task, slot: 'Nowhere'): ...": (
        "annotations",
        "'Nowhere' is not defined",
    ),
}


def test_what_is_wrong_with_a_module_is_one_clear_sentence(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for number, (source, words) in enumerate(MODULES.items()):
        (tmp_path / f"broken{number}.py").write_text(source)
        with pytest.raises(HandlerError) as refused:
            load_handler(f"broken{number}:Mine")
        told = str(refused.value)
        assert all(word in told for word in words), (source, told)
        assert "\n" not in told
        assert told.endswith((".", "?")) or ":" in told, told


def test_a_path_says_how_it_is_to_be_written_and_where_its_package_must_be():
    halves = ("", "my_agents", "my_agents:", ":Shout", "my_agents.Shout")
    undotted = ("../agents.py:Mine", "agents.py:Mine:more", ".agents:Mine", "a-b:Mine", "a..b:Mine")
    for path in halves + undotted:
        with pytest.raises(HandlerError, match=r"write it as package\.module:Name"):
            load_handler(path)
    with pytest.raises(HandlerError, match=r"No module named 'absent'.*PYTHONPATH"):
        load_handler("absent.agents:Mine")
