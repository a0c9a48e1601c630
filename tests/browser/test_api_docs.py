"""The page of the client API: drawn under the policy of all pages, and its requests go with the reader's sign-in."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect


def test_operations_are_shown_and_tried_out_with_the_sign_in(page: Page) -> None:
    page.goto("/api/v1/docs")
    operation = page.locator("#operations-sessions-sessions_create")
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.locator("textarea").first.fill('{"agent": "hello", "title": "From the page"}')
    with page.expect_response(re.compile(r"/api/v1/sessions$")) as answered:
        operation.get_by_role("button", name="Execute").click()
    assert answered.value.status == 201
    expect(operation.locator(".live-responses-table")).to_contain_text("From the page")
