"""Opens the main pages of a new Parley, reads its API's documents, and sends a message, in one process.

`python -m tests.installation.visiting` prints a line for each problem.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Iterator
from contextlib import suppress

import django

django.setup()

from django.test import Client  # noqa: E402
from django.urls import NoReverseMatch, get_resolver, reverse  # noqa: E402

from apps.accounts.models import User  # noqa: E402
from apps.agents.registration import register_hosted  # noqa: E402
from apps.record.execution import Run  # noqa: E402
from tests.working import carry_out  # noqa: E402

JSON = "application/json"


def main() -> None:
    register_hosted("echo", "examples.agents.echo:Echo")
    person = browser(User.objects.create_user("ada@example.org"))
    session = said(person)
    visit(person, [*pages(), reverse("web:session", args=[session]), reverse("web:agent", args=["echo"])])
    visit(person, ["/api/v1/docs", "/api/v1/schema", "/a2a/echo/.well-known/agent-card.json"])
    visit(browser(User.objects.create_superuser("operator@example.org")), [reverse("admin:index")])


def browser(user: User) -> Client:
    client = Client(SERVER_NAME="127.0.0.1")
    client.force_login(user)
    return client


def said(client: Client) -> str:
    """The session of a message, which must be answered."""
    asked = {"agent": "echo", "message": {"text": "Hello"}}
    session = client.post("/api/v1/sessions", asked, JSON, headers={"Idempotency-Key": "one"}).json()["session"]["id"]
    asyncio.run(carry_out(Run.objects.get().pk))
    messages = client.get(f"/api/v1/sessions/{session}/messages").json()["items"]
    if [one["role"] for one in messages] != ["user", "agent"]:
        print(f"The message was not answered: {messages}")
    return str(session)


def pages() -> Iterator[str]:
    """All pages of people whose address names nothing."""
    for name in get_resolver().namespace_dict["web"][1].reverse_dict:
        if isinstance(name, str):
            with suppress(NoReverseMatch):
                yield reverse(f"web:{name}")


def visit(client: Client, urls: list[str]) -> None:
    for url in urls:
        try:
            status = client.get(url).status_code
        except Exception:
            print(f"{url}: {traceback.format_exc(limit=-2)}")
        else:
            if status >= 500:
                print(f"{url}: {status}")


if __name__ == "__main__":
    main()
