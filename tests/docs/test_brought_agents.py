"""Each agent of the guides answers at every door, and a kill takes no question."""

import re
from contextlib import contextmanager
from dataclasses import astuple, dataclass, replace

import pytest
from playwright.sync_api import expect, sync_playwright

from tests.browser import doing
from tests.browser.conftest import ARGUMENTS, PATIENCE
from tests.chromium import CHROMIUM
from tests.docs.pages import page_at
from tests.stack import ROOT

pytestmark = [pytest.mark.slow("documentation is executed"), pytest.mark.timeout(600)]
DOORS = ROOT / "docs" / "how-to" / "bring-your-agent" / "doors.md"


@dataclass(frozen=True)
class Brought:
    """An agent, by its slug, and a conversation with it, as the page of doors has one."""

    slug: str
    said: str
    question: str
    answered: str
    answer: str


SHOWN = Brought("trips", "A trip, please", "Which city?", "Booked: Rome.", "Rome")
OTHERS = [
    Brought("shop", "I want a book", "May the agent use this tool?", "Ordered a.", "approve"),
    Brought("files", "Delete the old file", "May the agent use this tool?", "Deleted old.txt.", "approve"),
    Brought("poems", "the sea", "Is it good?", "A poem about the sea was published: very", "very"),
    Brought("greeter", "Hello there", "What is your name?", "Hello, Ada.", "Ada"),
]


def blocks_for(brought):
    """The blocks of the page of doors, about this agent."""

    def about_it(text):
        for shown, its in zip(astuple(SHOWN), astuple(brought), strict=True):
            text = text.replace(shown, its)
        return text

    return [
        replace(block, code=about_it(block.code), output=block.output and about_it(block.output))
        for block in page_at(DOORS).blocks
    ]


@pytest.mark.parametrize("brought", OTHERS, ids=lambda one: one.slug)
def test_agent_answers_at_every_door(brought, reader):
    for block in blocks_for(brought):
        reader.execute(block)


@pytest.mark.parametrize("brought", [SHOWN, *OTHERS], ids=lambda one: one.slug)
def test_question_in_browser_outlives_killed_process(brought, reader):
    add, *_, kill = blocks_for(brought)
    reader.execute(add)
    with signed_in(reader.server()) as page:
        doing.begin(page, brought.slug, brought.said)
        doing.heard(page, brought.question)
        reader.execute(kill)
        if brought.answer == "approve":
            page.get_by_label(brought.answer).check()
            page.get_by_role("button", name="Send answer").click()
        else:
            doing.say(page, brought.answer)
        doing.heard(page, brought.answered)
        doing.settled(page)


OWN_SERVERS = ROOT / "tests" / "docs" / "own_servers"
COMPARED = {
    "CrewAI": ("crewai.md", OWN_SERVERS / "crewai_server.py"),
    "LangGraph": ("langgraph.md", OWN_SERVERS / "langgraph.json"),
    "OpenAI Agents SDK": ("openai-agents.md", OWN_SERVERS / "openai_agents_server.py"),
    "Pydantic AI": ("pydantic-ai.md", OWN_SERVERS / "pydantic_ai_server.py"),
    "TypeScript": ("typescript.md", None),  # the guide's own file
}


@pytest.mark.parametrize(("framework", "guide", "own"), [(name, *of) for name, of in COMPARED.items()])
def test_compared_lines_are_those_of_the_files(framework, guide, own):
    """Beside the agent: the framework's server; for Parley agent.yaml, an import, and the line that names the agent."""
    page = page_at(DOORS.with_name(guide))
    (module,) = [block.code for block in page.blocks if (block.file or "").endswith((".py", ".ts"))]
    (described,) = [block.code for block in page.blocks if (block.file or "").endswith("agent.yaml")]
    ours = [line for line in module.splitlines() if "agentkit" in line or line.startswith("agent = ")]
    added = "\n".join(ours) if own else module
    row = re.search(rf"^\| {framework} \|.*", DOORS.with_name("README.md").read_text(), re.M)[0]
    cells = [cell.strip() for cell in row.split("|")]
    assert cells[3] == str(count(own.read_text() if own else module))
    assert cells[6].split(":")[0] == str(count(described) + count(added))


def count(text):
    """Lines of code."""
    return len(
        [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith(("#", '"""', "/**"))]
    )


@contextmanager
def signed_in(server):
    """A page of the first login. The browser ends before other tests need an event loop of their own."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(base_url=server.url, service_workers="block")
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto("/")
        doing.sign_in(page, server.demo_email, server.demo_password)
        page.wait_for_url(f"{server.url}/")
        yield page
        browser.close()
