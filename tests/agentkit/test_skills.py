"""Skills are methods, a list, or files; each takes its own turns."""

import pytest

from agentkit import HandlerError, Skill, SkillHandler, as_handler, load_skills, skill, testing

SKILL_MD = """---
name: Invoice reader
description: Reads invoices
  of any kind.
tags: [billing, pdf]
examples:
  - What do I owe?
input_modes: application/pdf
license: MIT
---
# How to

Look for the total.

---
Then answer.
"""


class Office(SkillHandler):
    """Keeps papers."""

    skills = (Skill("file", "File", "Files a paper.", ["paper"]),)

    @skill("file")
    async def put_away(self, task):
        return f"filed {task.message.text} for {task.skill}"

    @skill(tags=["paper", "search"], examples=["Where is it?"], output_modes=["text/plain"])
    def look_up(self, task):
        """Finds a paper.

        And more that is nobody's business.
        """
        return f"found {task.message.text} for {task.skill}"

    def shout(self, task):
        return task.message.text.upper()

    async def on_request(self, task):
        return f"hm, {task.message.text}"


def message(text, **metadata):
    return {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}], "metadata": metadata}


def test_methods_declare_skills_after_those_that_are_listed():
    listed, declared = (one.wire for one in Office.skills)
    assert listed == {"id": "file", "name": "File", "description": "Files a paper.", "tags": ["paper"]}
    described = {"id": "look-up", "name": "Look up", "description": "Finds a paper.", "tags": ["paper", "search"]}
    assert declared == {**described, "examples": ["Where is it?"], "outputModes": ["text/plain"]}


async def test_a_skills_method_takes_its_turns_and_answers():
    class Asking(Office):
        async def on_input_received(self, task):
            return f"answered {task.slot}"

    class Better(Office):
        def look_up(self, task):
            return "found better"

    assert (await testing.run(Office, message("it", skillId="file"))).said == "filed it for file"
    assert (await testing.run(Office, "it", skill="look-up")).said == "found it for look-up"
    assert (await testing.run(Office, "it")).said == "hm, it"
    assert (await testing.run(Office, "it", skill="look-up", slot="which")).said == "found it for look-up"
    assert (await testing.run(Asking, "it", skill="look-up", slot="which")).said == "answered which"
    assert (await testing.run(Better, "it", skill="look-up")).said == "found better"
    assert len(Better.skills) == 2


def doing(**members):
    return type("Doing", (SkillHandler,), {"on_request": lambda self, task: None, **members})


def test_a_single_method_is_a_skill():
    (only,) = as_handler(type("Single", (SkillHandler,), {"shout": skill()(Office.shout)})).skills
    assert (only.id, only.name, only.description, list(only.tags)) == ("shout", "Shout", "Shout.", ["shout"])


def test_skill_ids_are_unique_in_a_handler():
    with pytest.raises(HandlerError, match="has the skill 'a' twice"):
        doing(skills=[Skill("a", "A", "A.", ["a"]), Skill("a", "B", "B.", ["b"])])
    with pytest.raises(HandlerError, match="two methods for the skill 'a'"):
        doing(one=skill("a")(lambda self, task: None), two=skill("a")(lambda self, task: None))


def test_a_skill_is_read_from_its_markdown_file(tmp_path):
    (tmp_path / "SKILL.md").write_text(SKILL_MD)
    (read,) = load_skills("SKILL.md", beside=tmp_path / "agent.py")
    assert read == Skill(
        "invoice-reader",
        "Invoice reader",
        "Reads invoices of any kind.",
        ["billing", "pdf"],
        ["What do I owe?"],
        ["application/pdf"],
        instructions="# How to\n\nLook for the total.\n\n---\nThen answer.",
    )
    assert "instructions" not in read.wire
    assert load_skills(tmp_path / "SKILL.md") == load_skills("SKILL.md", beside=tmp_path) == [read]


WRONG_FILES = [
    ("SKILL.md", "# No front matter", "must begin with front matter"),
    ("SKILL.md", "---\nname: A\n---\n", "description is missing"),
    ("SKILL.md", "---\nname: [A\n---\n", r"SKILL\.md, line \d is no YAML"),
    ("SKILL.md", "---\nname: A\ndescription: D\ntags: {a: 1}\n---\n", "tags must be a list of texts"),
    ("SKILL.md", b"\xff\xfe\x00", "cannot be read"),
    ("skill.yaml", "- {name: A, description: D}\n- {name: A, description: E}", "has the skill 'a' twice"),
    ("skill.yaml", "!!python/object/apply:os.system [ls]", "is no YAML"),
    ("skill.txt", "name: A", "neither a SKILL.md nor a skill.yaml"),
]


def test_a_wrong_file_is_refused_with_its_name(tmp_path):
    for name, content, told in WRONG_FILES:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        with pytest.raises(HandlerError, match=told) as refused:
            load_skills(tmp_path / name)
        assert name in str(refused.value), content
        assert "\n" not in str(refused.value), content
    with pytest.raises(HandlerError, match="cannot be read"):
        load_skills(tmp_path / "absent.md")


def test_skills_are_read_from_yaml_one_or_many(tmp_path):
    one = "id: a\nname: A\ndescription: Does a.\ntags: [x]\ninstructions: Do a.\n"
    (tmp_path / "skill.yaml").write_text(one)
    assert load_skills(tmp_path / "skill.yaml") == [Skill("a", "A", "Does a.", ["x"], instructions="Do a.")]
    (tmp_path / "skills.yml").write_text("- {name: A, description: Does a.}\n- {name: B b, description: Does b.}\n")
    assert [(one.id, one.tags) for one in load_skills(tmp_path / "skills.yml")] == [("a", ["a"]), ("b-b", ["b-b"])]
