"""Static files of pages are collected and served."""

import re

import httpx


def test_files_are_compressed_cached_and_sent_in_part(server):
    with httpx.Client(base_url=server.url) as client:
        found = re.search(r"/static/css/base\.[0-9a-f]+\.css", client.get("/sign-in").text)
        assert found
        style = found[0]
        for accepted in ("br, gzip", "gzip", "identity"):
            answer = client.get(style, headers={"Accept-Encoding": accepted})
            assert answer.status_code == 200
            assert answer.headers.get("Content-Encoding", "identity") in accepted
            assert "immutable" in answer.headers["Cache-Control"]
            assert {"content-security-policy", "referrer-policy", "x-content-type-options"} <= answer.headers.keys()
        whole = client.get(style, headers={"Accept-Encoding": "identity"})
        assert client.get(style, headers={"If-None-Match": whole.headers["ETag"]}).status_code == 304
        part = client.get(style, headers={"Range": "bytes=0-9", "Accept-Encoding": "identity"})
        assert (part.status_code, part.content) == (206, whole.content[:10])
        head = client.head(style)
        assert (head.status_code, head.content) == (200, b"")
        assert client.post(style).status_code == 405
        assert client.get("/static/css/none.css").status_code == 404
