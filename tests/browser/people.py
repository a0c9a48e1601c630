"""New people, each with a sign-in and an API key."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import httpx

from tests.stack import Stack

PASSWORD = "correct horse"
MAKE = """
import json
from django.contrib.auth.hashers import make_password
from django.test import Client
from apps.accounts.models import ApiKey, User
password = make_password({password!r})
def cookie(user):
    client = Client()
    client.force_login(user)
    return client.cookies["sessionid"].value
for number in range({count}):
    user = User.objects.create_user(f"ada-{{number}}@example.org", name="Ada")
    user.password = password
    user.save()
    print(json.dumps([user.email, cookie(user), ApiKey.issue(user, "first key")[1]]))
admin = User.objects.get(email={admin!r})
print(json.dumps([admin.email, cookie(admin), ""]))
"""


class Person:
    """A person using the client API; `state` is the browser's signed-in state."""

    def __init__(self, url: str, email: str, cookie: str, key: str) -> None:
        self.url, self.email, self.key = url, email, key
        about = {"domain": "127.0.0.1", "path": "/", "expires": -1, "httpOnly": True, "secure": False}
        kept = {"name": "sessionid", "value": cookie, "sameSite": "Lax", **about}
        self.state: Any = {"cookies": [kept], "origins": []}
        self.http = httpx.Client(base_url=f"{url}/api/v1", headers={"Authorization": f"Bearer {key}"}, timeout=120)

    def api(self, method: str, path: str, **body: Any) -> Any:
        """The answer; None if it is empty or not found."""
        headers = {"Idempotency-Key": str(uuid.uuid4())}
        answer = self.http.request(method, path, json=body if method != "GET" else None, headers=headers)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        return answer.raise_for_status().json() if answer.content else None

    def begin(self, agent: str, text: str, *, wait: bool = True, **more: Any) -> tuple[str, str]:
        """A session and its task; with `wait`, once the agent has answered or asked."""
        said = self.api("POST", "/sessions", agent=agent, message={"text": text, **more}, wait=wait)
        return said["session"]["id"], said["task"]["id"]

    def say(self, session: str, text: str) -> None:
        self.api("POST", f"/sessions/{session}/messages", text=text, wait=True)

    def session(self, session: str) -> Any:
        """The session now; None if it is gone."""
        return self.api("GET", f"/sessions/{session}")


def make(parley: Stack, count: int, before: str = "") -> Iterator[Person]:
    """So many people, then an operator without a key, after a script that prints nothing: a process costs seconds."""
    script = before + MAKE.format(password=PASSWORD, count=count, admin=parley.admin_email)
    for line in parley.manage("shell", "-v0", "-c", script).stdout.splitlines():
        yield Person(parley.url, *json.loads(line))
