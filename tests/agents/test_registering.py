"""A hosted agent's handler describes it; the platform configures it."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from agentkit import SkillHandler
from apps.agents.definitions import as_yaml
from apps.agents.models import RESERVED_SLUGS, Agent
from apps.agents.registration import house_workspace, register_hosted
from tests.agents.definitions import definition

pytestmark = pytest.mark.django_db


class Worker(SkillHandler):
    listed = False
    category = "Inner work"

    def on_request(self, task):
        return "done"


ECHO = "examples.agents.echo:Echo"
HELLO = "examples.agents.hello:Hello"


def test_an_agent_is_what_its_handler_says(capsys):
    call_command("register_agent", "hello", "--handler", HELLO, "--access", "public")
    agent = Agent.objects.get()
    assert (agent.slug, agent.name, agent.kind) == ("hello", "Hello", "hosted")
    assert (agent.access, agent.retry_safe) == ("public", True)
    assert agent.skills[0]["id"] == "greeting"
    assert agent.workspace == house_workspace()
    assert capsys.readouterr().out == "Hello is registered at /a2a/hello (everybody, without signing in).\n"


def test_registering_again_updates_what_the_handler_says_and_keeps_the_policies(ada):
    first = register_hosted("greeter", ECHO, access="groups", on_busy="reject")
    again = register_hosted("greeter", HELLO)
    assert again.pk == first.pk
    assert again.name == "Hello"
    assert (again.access, again.on_busy) == ("groups", "reject")
    assert register_hosted("one", ECHO).workspace == register_hosted("two", HELLO).workspace == house_workspace()
    assert register_hosted("hers", ECHO, workspace=ada.personal_workspace).workspace == ada.personal_workspace


def test_how_lists_show_an_agent_is_its_handlers_word_at_first_and_the_operators_afterwards():
    assert Agent.objects.filter(listed=False).count() == 0
    handler = "tests.agents.test_registering:Worker"
    worker = register_hosted("worker", handler)
    assert (worker.listed, worker.category) == (False, "Inner work")
    call_command("register_agent", "worker", "--handler", handler, "--listed", "--category=Tests", "--position=2")
    again = register_hosted("worker", handler)
    assert (again.listed, again.category, again.pinned) == (True, "Tests", 2)
    call_command("register_agent", "other", "--handler", handler, "--no-listed", "--category=")
    other = Agent.objects.get(slug="other")
    assert (other.listed, other.category, other.pinned) == (False, "", None)
    for options in (["--position=0"], [f"--category={'x' * 41}"]):
        with pytest.raises(CommandError, match=r"^(category|pinned): "):
            call_command("register_agent", "other", "--handler", handler, *options)


def test_a_path_that_leads_to_no_handler_is_refused_in_a_sentence():
    for handler, sentence in [
        ("echo", r"'echo' names no handler: write it as package\.module:Name\."),
        ("examples.nowhere:Echo", r"The module 'examples\.nowhere' .* cannot be imported"),
        ("examples.agents.echo:Nobody", r"has no 'Nobody': check the name after the colon\."),
        ("apps.agents.models:Agent", "neither"),
    ]:
        with pytest.raises(CommandError, match=sentence):
            call_command("register_agent", "echo", "--handler", handler)
        assert not Agent.objects.exists(), handler


def test_a_slug_that_does_not_fit_into_a_url_and_policies_that_cannot_be_are_refused():
    for slug in sorted(RESERVED_SLUGS):
        with pytest.raises(CommandError, match=r"slug: .*Choose another"):
            call_command("register_agent", slug, "--handler", ECHO)
    for slug in ["Echo", "echo_1", "echo/x", "é", "echo\n", "e" * 64]:
        with pytest.raises(CommandError, match=r"^slug: "):
            call_command("register_agent", slug, "--handler", ECHO)
    for policies in [{"attempts": 0}, {"time_limit": 0}, {"access": "friends"}, {"on_busy": "shout"}]:
        with pytest.raises(ValidationError):
            register_hosted("echo", ECHO, **policies)


def test_the_database_itself_wants_a_handler_for_a_hosted_agent(echo):
    with pytest.raises(IntegrityError), transaction.atomic():
        Agent.objects.filter(pk=echo.pk).update(handler="")


@pytest.fixture
def file(tmp_path):
    def write(text: str) -> str:
        path = tmp_path / "agent.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_an_agent_without_code_is_registered_from_a_file(capsys, file):
    path = file(as_yaml(definition(tools=["calculate"]).content))
    call_command("register_agent", "clerk", "--from", path, "--access", "public")
    agent = Agent.objects.get()
    assert (agent.kind, agent.access, agent.current_version.content["tools"]) == ("model", "public", ["calculate"])
    assert capsys.readouterr().out == "Clerk is registered at /a2a/clerk (everybody, without signing in).\n"
    call_command("register_agent", "clerk", "--from", path)
    assert agent.versions.count() == 1


def test_a_file_that_defines_no_agent_is_refused_in_a_sentence(file, tmp_path):
    for text, sentence in [
        ("name: Clerk", r"description: Field required\."),
        ("- a list", r"Write a mapping"),
        ("name: Clerk\ndescription: D\ninstructions: I\ntools: [nothing]", r"There is no tool nothing\. Available"),
        ("kind: hosted\nname: Clerk\ndescription: D\ninstructions: I", r"kind: .*not permitted"),
    ]:
        with pytest.raises(CommandError, match=sentence):
            call_command("register_agent", "clerk", "--from", file(text))
        assert not Agent.objects.exists(), text
    with pytest.raises(CommandError, match="Cannot read text from"):
        call_command("register_agent", "clerk", "--from", str(tmp_path / "nowhere.yaml"))
    with pytest.raises(CommandError, match="not allowed with"):
        call_command("register_agent", "clerk", "--from", file("name: x"), "--handler", ECHO)
