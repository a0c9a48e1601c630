"""A hosted agent's handler describes it; the platform configures it."""

import pytest
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction

from apps.agents.definitions import as_yaml
from apps.agents.models import RESERVED_SLUGS, Agent
from apps.agents.registration import house_workspace, register_hosted
from tests.agents.definitions import clerk, definition

pytestmark = pytest.mark.django_db


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


def test_registering_again_keeps_the_policies(ada):
    first = register_hosted("greeter", ECHO, access="groups", on_busy="reject")
    again = register_hosted("greeter", HELLO)
    assert again.pk == first.pk
    assert again.name == "Hello"
    assert (again.access, again.on_busy) == ("groups", "reject")
    assert register_hosted("one", ECHO).workspace == register_hosted("two", HELLO).workspace == house_workspace()
    assert register_hosted("hers", ECHO, workspace=ada.personal_workspace).workspace == ada.personal_workspace


def test_a_wrong_handler_or_slug_is_refused():
    handlers = "echo", "examples.nowhere:Echo", "examples.agents.echo:Nobody", "apps.agents.models:Agent"
    slugs = *RESERVED_SLUGS, "Echo", "echo/x", "é", "echo\n", "e" * 64
    for slug, handler in [*(("echo", handler) for handler in handlers), *((slug, ECHO) for slug in slugs)]:
        with pytest.raises(CommandError):
            call_command("register_agent", slug, "--handler", handler)
    assert not Agent.objects.exists()


def test_impossible_policies_and_no_handler_are_refused(echo):
    with pytest.raises(IntegrityError), transaction.atomic():
        Agent.objects.filter(pk=echo.pk).update(handler="")
    for policies in [{"attempts": 0}, {"time_limit": 0}, {"access": "friends"}, {"on_busy": "shout"}]:
        with pytest.raises(ValidationError):
            register_hosted("echo", ECHO, **policies)


def test_agents_are_registered_from_files(capsys, tmp_path):
    path = tmp_path / "agent.yaml"
    path.write_text(as_yaml(definition(tools=["calculate"]).content))
    call_command("register_agent", "clerk", "--from", str(path), "--access", "public")
    agent = Agent.objects.get()
    assert (agent.kind, agent.access, agent.current_version.content["tools"]) == ("model", "public", ["calculate"])
    assert capsys.readouterr().out == "Clerk is registered at /a2a/clerk (everybody, without signing in).\n"
    call_command("register_agent", "clerk", "--from", str(path))
    assert agent.versions.count() == 1
    path.write_text("name: Clerk")
    for options in ([str(path)], [str(tmp_path / "nowhere")], [str(path), "--handler", ECHO]):
        with pytest.raises(CommandError):
            call_command("register_agent", "another", "--from", *options)
    assert not Agent.objects.filter(slug="another").exists()


def test_another_kinds_slug_is_not_taken_over(echo):
    with pytest.raises(ValidationError, match="another kind"):
        clerk("echo")
    clerk()
    with pytest.raises(ValidationError, match="without code"):
        register_hosted("clerk", ECHO)
