"""A page that an agent drives reaches no approval: not by what it writes, by a frame, nor by a request of its own."""

from __future__ import annotations

import re

import pytest
from django.test import Client

from agentkit.llm import approvals
from apps.engine.turns.questions import slot_of
from apps.record.content.rendering import render_markdown
from apps.record.execution import Run
from apps.record.models import Task
from tests.clients import telling

pytestmark = pytest.mark.django_db

CALL = {"key": "k", "tool": "send_mail", "kind": "mcp", "needs": 1, "schema": {"type": "object"}, "why": ""}
CALL |= {"decisions": [], "arguments": {"to": "eve"}, "proposed": {"to": "eve"}}
DOORS = ("", "/token", "/confirm")
APPROVE = {"answer-decision": "approve"}


@pytest.fixture
def asking(ada, echo):
    slot = slot_of(approvals.question([CALL]))
    return Task.objects.get(pk=telling.asked(ada, echo, slot).task)


@pytest.fixture
def address(asking):
    return f"/sessions/{asking.context_id}/approvals/{asking.pk}"


@pytest.fixture
def browser(ada):
    signed_in = Client(enforce_csrf_checks=True)
    signed_in.force_login(ada)
    return signed_in


def is_undecided(task: Task) -> bool:
    return not Run.objects.filter(task=task, turn__gt=1).exists()


FORMS = {
    "application/x-www-form-urlencoded": "answer-decision=approve",
    "text/plain": "answer-decision=approve",
    "multipart/form-data; boundary=x": "--x\r\nContent-Disposition: form-data;"
    ' name="answer-decision"\r\n\r\napprove\r\n--x--\r\n',
}


def test_no_link_picture_or_foreign_form_decides(browser, asking, address):
    for door in DOORS:
        for method in ("get", "head", "options"):
            answer = getattr(browser, method)(address + door, APPROVE)
            assert answer.status_code in (200, 403, 404, 405), (door, method)
        for kind, body in FORMS.items():
            answer = browser.post(address + door, body, kind, headers={"Sec-Fetch-Site": "cross-site"})
            assert answer.status_code == 403, (door, kind)
    assert is_undecided(asking)


def test_no_cookie_alone_decides_by_the_api(browser, asking):
    for path in (f"/api/v1/approvals/{asking.pk}", f"/api/v1/tasks/{asking.pk}/answer"):
        answer = browser.post(path, {"decision": "approve"}, "application/json", headers={"Idempotency-Key": "k"})
        assert answer.status_code in (400, 401, 403), path
    assert is_undecided(asking)


def test_pages_with_approvals_are_in_no_frame(browser, asking):
    for page in ("/inbox", f"/sessions/{asking.context_id}"):
        answer = browser.get(page, headers={"Origin": "https://evil.example"})
        assert (answer.status_code, answer["X-Frame-Options"]) == (200, "DENY")
        for rule in ("frame-ancestors 'none'", "form-action 'self'", "base-uri"):
            assert rule in answer["Content-Security-Policy"]
        assert "Access-Control-Allow-Origin" not in answer


@pytest.mark.parametrize(
    "written",
    [
        '<form action="{0}" method="post"><button name="answer-decision" value="approve">OK</button></form>',
        '<button form="approval" formaction="{0}">OK</button>',
        '<input type="submit" form="approval" value="OK">',
        '<a href="/x" hx-post="{0}">OK</a>',
        '<div data-hx-post="{0}" data-hx-trigger="load">OK</div>',
        '<img src="{0}">',
        "![]({0})",
        '<iframe src="{0}"></iframe>',
        '<meta http-equiv="refresh" content="0; url={0}">',
        '<base href="https://evil.example/">',
        '<label for="approve">OK</label>',
        "<details open ontoggle=\"fetch('{0}')\">OK</details>",
        "<a href=\"javascript:fetch('{0}')\">OK</a>",
        "[OK](javascript:fetch('{0}'))",
        '<link rel="prefetch" href="{0}">',
        '<svg><a href="{0}"><use href="{0}"/></a></svg>',
    ],
)
def test_no_markdown_asks_for_an_address(written):
    tags = " ".join(re.findall(r"<[^>]*>", render_markdown(written.format("/sessions/1/approvals/2"))))
    assert not re.search(r"<(form|button|input|iframe|meta|base|label|link|svg|use|script)\b", tags)
    assert not re.search(r"\s(on\w+|formaction|form|hx-\w+|data-hx-\w+)=", tags)
    assert not re.search(r"<img[^>]* src=[\"']?/sessions/", tags)
    assert "javascript:" not in tags
