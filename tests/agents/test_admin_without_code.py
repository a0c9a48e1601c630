"""Operators make agents without code in a form: each change is a version, what cannot be is refused at its field."""

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.urls import reverse

from apps.agents.models import Agent, AgentVersion, ToolSecret
from tests.agents.definitions import clerk

pytestmark = pytest.mark.django_db

ADD = reverse("admin:agents_agent_add") + "?kind=model"
LIST = reverse("admin:agents_agent_changelist")
WITHOUT_CODE = reverse("admin:agents_agent_add_without_code")
MCP = "https://tools.example.org/mcp"


def rows(prefix, *filled):
    """Rows as a browser sends them, with a blank one at the end."""
    blank = dict.fromkeys(filled[0] if filled else {}, "")
    sent = {f"{prefix}-TOTAL_FORMS": len(filled) + 1, f"{prefix}-INITIAL_FORMS": 0}
    for number, row in enumerate((*filled, blank)):
        sent |= {f"{prefix}-{number}-{name}": value for name, value in row.items()}
    return sent


def skill(**fields):
    return {"name": "Sort mail", "description": "Sorts it.", "tags": "", "examples": "", "id": "", **fields}


def server(**fields):
    return {"url": MCP, "header": "", "secret": "", **fields}


def form(skills=(), servers=(), **values):
    """What the form sends; `None` leaves a field out."""
    standing = {
        "name": "Clerk", "slug": "clerk", "description": "Answers letters.", "is_enabled": "on", "opened": "",
        "instructions": "Answer in one sentence.", "model": "", "temperature": "", "max_tokens": "", "max_steps": "10",
        "streaming": "on", "input_modes": "text/*", "access": "authenticated", "on_busy": "enqueue",
        "time_limit": "600", "attempts": "3", "workspace": "", "note": "",
    }  # fmt: skip
    sent = {**standing, **rows("skills", *skills), **rows("mcp_servers", *servers), **values}
    return {name: value for name, value in sent.items() if value is not None}


def add(client, **values):
    return client.post(ADD, form(**values))


def change(client, agent, **values):
    agent.refresh_from_db()
    return client.post(page_of(agent), form(opened=agent.current_version.number, **values))


def page_of(agent):
    return reverse("admin:agents_agent_change", args=[agent.pk])


def action_of(row, name):
    return reverse(f"admin:agents_{row._meta.model_name}_{name}", args=[row.pk])


def errors(answer) -> dict[str, list[str]]:
    assert answer.status_code == 200
    return answer.context["adminform"].form.errors


def saved(answer) -> Agent:
    assert answer.status_code == 302, errors(answer)
    return Agent.objects.get(slug="clerk")


def test_an_agent_is_made_in_the_form(admin_client, admin_user, echo):
    answer = add(
        admin_client,
        skills=[skill(tags="mail, letters", examples="Sort this.\n\nAnd that.")],
        servers=[server(header="X-Key", secret="s3cret value")],
        tools=["calculate", "read_file"],
        agents=["echo"],
        temperature="0.5",
        note="A first try.",
    )
    agent = saved(answer)
    version = agent.current_version
    assert (agent.kind, agent.version, version.number) == ("model", "1.0.0", 1)
    assert (version.author, version.note) == (admin_user, "A first try.")
    content = version.content
    assert (content["tools"], content["agents"], content["temperature"]) == (["calculate", "read_file"], ["echo"], 0.5)
    assert content["mcp_servers"] == [{"url": MCP, "header": "X-Key"}]
    assert agent.skills == [
        {
            "id": "sort-mail",
            "name": "Sort mail",
            "description": "Sorts it.",
            "tags": ["mail", "letters"],
            "examples": ["Sort this.", "And that."],
        }
    ]
    assert agent.tool_secrets.get().secret == "s3cret value"
    assert LogEntry.objects.get().user == admin_user


@pytest.mark.django_db(transaction=True)
def test_its_card_is_served_at_once_and_its_etag_changes_with_it(admin_client, client):
    agent = saved(add(admin_client))
    first = client.get("/a2a/clerk/.well-known/agent-card.json")
    assert (first.json()["name"], first.json()["version"]) == ("Clerk", "1.0.0")
    change(admin_client, agent, instructions="Answer in two sentences.")
    second = client.get("/a2a/clerk/.well-known/agent-card.json", headers={"If-None-Match": first["ETag"]})
    assert second.status_code == 200
    assert second.json()["version"] == "1.1.0"
    again = client.get("/a2a/clerk/.well-known/agent-card.json", headers={"If-None-Match": second["ETag"]})
    assert again.status_code == 304


def test_the_form_shows_what_the_agent_is_and_sent_back_makes_no_version(admin_client):
    agent = saved(add(admin_client, skills=[skill(examples="One.")], servers=[server()], tools=["calculate"]))
    shown = admin_client.get(page_of(agent)).context["adminform"].form
    assert shown["instructions"].value() == "Answer in one sentence."
    assert shown["skills"].value()[0]["examples"] == "One."
    sent = change(admin_client, agent, skills=[skill(examples="One.")], servers=[server()], tools=["calculate"])
    assert saved(sent).versions.count() == 1
    saved(change(admin_client, agent))
    assert agent.versions.count() == 2


def test_an_agent_goes_back_to_an_earlier_version(admin_client, admin_user):
    agent = saved(add(admin_client))
    first = agent.current_version
    saved(change(admin_client, agent, instructions="Answer in two sentences."))
    page = reverse("admin:agents_agentversion_change", args=[first.pk])
    offered = admin_client.get(page).content.decode()
    assert "Go back to it" in offered
    admin_client.post(action_of(first, "go_back"), {"_form_submitted": "True"})
    agent.refresh_from_db()
    assert (agent.current_version.number, agent.current_version.sha256) == (3, first.sha256)
    assert agent.current_version.author == admin_user
    assert LogEntry.objects.filter(change_message__contains="Back to version 1, as version 3.").exists()
    current = admin_client.get(reverse("admin:agents_agentversion_change", args=[agent.current_version_id]))
    assert "Go back to it" not in current.content.decode()


def test_two_versions_are_shown_side_by_side(admin_client):
    agent = saved(add(admin_client))
    saved(change(admin_client, agent, instructions="Answer in two sentences."))
    saved(change(admin_client, agent, instructions="Answer in <three> sentences."))
    page = reverse("admin:agents_agentversion_change", args=[Agent.objects.get().current_version_id])
    beside = admin_client.get(page).content.decode()
    assert "What changed from version 2 to 3" in beside
    assert "<del>instructions: Answer in two sentences.</del>" in beside
    assert "<ins>instructions: Answer in &lt;three&gt; sentences.</ins>" in beside
    assert "What changed from version 1 to 3" in admin_client.get(page, {"against": "1"}).content.decode()
    for nonsense in ("0", "x", "9" * 50, "²"):
        assert admin_client.get(page, {"against": nonsense}).status_code == 200


def test_a_version_can_be_had_as_a_file(admin_client):
    agent = saved(add(admin_client, servers=[server(secret="s3cret")]))
    file = admin_client.get(action_of(agent.current_version, "download"))
    assert file["Content-Disposition"] == 'attachment; filename="clerk-1.yaml"'
    assert "instructions: Answer in one sentence.\n" in file.content.decode()
    assert "s3cret" not in file.content.decode()


@pytest.mark.parametrize(
    ("values", "field", "sentence"),
    [
        ({"instructions": "  "}, "instructions", "This field is required."),
        ({"name": ""}, "name", "This field is required."),
        ({"slug": "tasks"}, "slug", "Choose another"),
        ({"max_steps": "0"}, "max_steps", "greater than or equal to 1"),
        ({"temperature": "nan"}, "temperature", "Enter a number"),
        ({"temperature": "3"}, "temperature", "less than or equal to 2"),
        ({"input_modes": ""}, "input_modes", "This field is required."),
        ({"tools": ["nothing"]}, "tools", "nothing is not one of the available choices"),
        ({"agents": ["clerk"]}, "agents", "clerk is not one of the available choices"),
        ({"servers": [{"url": "http://10.0.0.1/mcp", "header": "", "secret": ""}]}, "mcp_servers", "public internet"),
        ({"servers": [{"url": "nonsense", "header": "", "secret": ""}]}, "mcp_servers", "nonsense: "),
        ({"servers": [{"url": MCP, "header": "a b", "secret": ""}]}, "mcp_servers", "0.header"),
        ({"servers": [{"url": MCP, "header": "", "secret": "two\nlines"}]}, "mcp_servers", "rows that are marked"),
        ({"servers": [{"url": MCP, "header": "", "secret": ""}] * 2}, "mcp_servers", "It is given twice"),
        ({"skills": [skill(), skill()]}, "skills", "Two skills have the id sort-mail."),
        ({"skills": [skill(name="")]}, "skills", "rows that are marked"),
        ({"skills-TOTAL_FORMS": "many"}, "skills", "ManagementForm"),
        ({"skills-TOTAL_FORMS": "5000"}, "skills", "at most 100"),
    ],
)
def test_what_cannot_be_is_refused_at_its_field(admin_client, values, field, sentence):
    found = errors(add(admin_client, **values))
    assert list(found) == [field]
    assert sentence in " ".join(found[field])
    assert not Agent.objects.exists()


def test_an_agent_cannot_ask_itself(admin_client):
    agent = saved(add(admin_client))
    assert "agents" in errors(change(admin_client, agent, agents=["clerk"]))


def test_a_row_that_is_wrong_is_marked_and_what_was_written_stays(admin_client):
    page = add(admin_client, skills=[skill(name="", description="Sorts it all.")]).content.decode()
    assert "Sorts it all." in page
    assert "This field is required." in page


def test_a_tool_that_is_gone_is_named_until_it_is_taken_away(admin_client):
    agent = clerk(tools=["calculate"])
    AgentVersion.objects.filter(agent=agent).update(content={**agent.current_version.content, "tools": ["gone"]})
    assert "gone: no longer there" in admin_client.get(page_of(agent)).content.decode()
    assert "There is no tool gone." in errors(change(admin_client, agent, tools=["gone"]))["tools"][0]
    saved(change(admin_client, agent))


def test_nobody_overwrites_a_version_that_they_have_not_seen(admin_client, admin_user):
    agent = saved(add(admin_client))
    saved(change(admin_client, agent, instructions="Hers."))
    late = admin_client.post(page_of(agent), form(opened=1, instructions="His."))
    assert "Version 2 was made by" in errors(late)["__all__"][0]
    assert Agent.objects.get().current_version.content["instructions"] == "Hers."


def test_a_secret_stays_until_it_is_replaced_or_forgotten_and_goes_with_its_url(admin_client):
    agent = saved(add(admin_client, servers=[server(secret="opensesame")]))
    page = admin_client.get(page_of(agent)).content.decode()
    assert "opensesame" not in page
    assert "kept, not shown" in page
    saved(change(admin_client, agent, servers=[server()]))
    assert ToolSecret.objects.get().secret == "opensesame"
    saved(change(admin_client, agent, servers=[server(secret="second")]))
    assert ToolSecret.objects.get().secret == "second"
    saved(change(admin_client, agent, servers=[server(url="https://other.example.org/mcp")]))
    assert not ToolSecret.objects.exists()
    saved(change(admin_client, agent, servers=[server(secret="third")]))
    saved(change(admin_client, agent, servers=[server(forget="on")]))
    assert not ToolSecret.objects.exists()


def test_a_hosted_agent_keeps_its_form_and_has_versions_too(admin_client, admin_user, echo):
    shown = admin_client.get(page_of(echo)).context["adminform"].form
    assert "instructions" not in shown.fields
    assert "model" not in dict(shown.fields["kind"].choices)
    fields = {name: shown[name].value() for name in shown.fields}
    sent = {name: "" if value is None else value for name, value in fields.items() if value is not False}
    assert admin_client.post(page_of(echo), {**sent, "description": "Says it again."}).status_code == 302
    echo.refresh_from_db()
    assert (echo.current_version.number, echo.current_version.author) == (2, admin_user)
    page = admin_client.get(reverse("admin:agents_agentversion_change", args=[echo.current_version_id]))
    assert "Go back to it" not in page.content.decode()


def test_there_are_ways_from_the_list_to_the_form_and_from_the_agent_to_its_page(admin_client):
    assert "Add an agent without code" in admin_client.get(LIST).content.decode()
    assert admin_client.get(WITHOUT_CODE, follow=True).redirect_chain[-1][0] == ADD
    agent = clerk()
    assert admin_client.get(action_of(agent, "try_it"), follow=True).redirect_chain[-1][0] == "/agents/clerk"
    versions = admin_client.get(action_of(agent, "show_versions"), follow=True)
    assert [one.number for one in versions.context["cl"].result_list] == [1]


def operator(django_user_model, *permissions):
    user = django_user_model.objects.create_user("operator@example.org", "p", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def test_who_may_only_look_makes_and_changes_nothing(client, django_user_model):
    agent = clerk()
    first = clerk(name="Other").versions.last()
    client.force_login(operator(django_user_model, "view_agent", "view_agentversion"))
    assert client.get(page_of(agent)).status_code == 200
    assert add(client, slug="another").status_code == 403
    assert change(client, agent, instructions="Mine.").status_code == 403
    page = reverse("admin:agents_agentversion_change", args=[first.pk])
    assert client.get(page).status_code == 200
    assert "Go back to it" not in client.get(page).content.decode()
    assert client.post(action_of(first, "go_back")).status_code == 403
    assert client.get(WITHOUT_CODE).status_code == 403
    assert Agent.objects.get().current_version.number == 2


def test_who_may_not_look_sees_no_version(client, django_user_model):
    version = clerk().current_version
    client.force_login(operator(django_user_model, "view_user"))
    assert client.get(reverse("admin:agents_agentversion_change", args=[version.pk])).status_code == 403
    assert client.get(action_of(version, "download")).status_code == 403


def test_an_agent_that_nobody_used_is_deleted_with_its_versions_and_secrets(admin_client):
    agent = saved(add(admin_client, servers=[server(secret="opensesame")]))
    delete = reverse("admin:agents_agent_delete", args=[agent.pk])
    assert admin_client.post(delete, {"post": "yes"}).status_code == 302
    assert [kind.objects.count() for kind in (Agent, AgentVersion, ToolSecret)] == [0, 0, 0]


def test_who_may_not_delete_agents_deletes_no_versions_either(client, django_user_model):
    agent = clerk()
    client.force_login(operator(django_user_model, "view_agent", "change_agent", "view_agentversion"))
    assert client.post(reverse("admin:agents_agent_delete", args=[agent.pk]), {"post": "yes"}).status_code == 403
    version = reverse("admin:agents_agentversion_delete", args=[agent.current_version_id])
    assert client.post(version, {"post": "yes"}).status_code == 403
    assert AgentVersion.objects.exists()


def test_versions_are_not_changed_in_their_pages(admin_client):
    page = reverse("admin:agents_agentversion_change", args=[clerk().current_version_id])
    assert admin_client.post(page, {"note": "x"}).status_code == 403
    assert admin_client.get(reverse("admin:agents_agentversion_add")).status_code == 403


def test_the_pages_cost_the_same_however_many_versions_there_are(admin_client, django_assert_max_num_queries):
    for number in range(30):
        agent = clerk(instructions=f"Number {number}.")
    versions = reverse("admin:agents_agentversion_changelist")
    with django_assert_max_num_queries(8):
        assert len(admin_client.get(versions).context["cl"].result_list) == 30
    with django_assert_max_num_queries(20):
        admin_client.get(page_of(agent))
