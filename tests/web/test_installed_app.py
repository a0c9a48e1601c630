"""Parley as an installed app."""

import pytest

pytestmark = pytest.mark.django_db


def test_the_manifest_makes_it_installable(client):
    told = client.get("/app.webmanifest")
    assert told["Content-Type"] == "application/manifest+json"
    manifest = told.json()
    assert (manifest["start_url"], manifest["display"]) == ("/", "standalone")
    assert {(one["sizes"], one["purpose"]) for one in manifest["icons"]} >= {
        ("192x192", "any"),
        ("512x512", "maskable"),
    }
    assert 'rel="manifest" href="/app.webmanifest"' in client.get("/sign-in").text


def test_shared_words_wait_in_the_composer(ada_browser):
    shared = ada_browser.post("/share", {"title": "Otters", "text": "a & b", "url": "https://example.org"})
    assert shared["Location"] == "/?text=Otters%0Aa+%26+b%0Ahttps%3A%2F%2Fexample.org"
