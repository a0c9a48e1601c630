"""S3's REST API as far as backups use it, after its documentation. Signatures and sums of contents are checked.

https://docs.aws.amazon.com/AmazonS3/latest/API/ and .../userguide/sig-v4-authenticating-requests.html
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, quote, unquote, urlsplit

KEY, SECRET = "backups", "a secret of the storage"
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<key>[^/]+)/(?P<scope>\S+), SignedHeaders=(?P<signed>\S+), Signature=(?P<of>\w+)"
)


class Storage(http.server.ThreadingHTTPServer):
    """One bucket, `backups`. `fails`: how many parts are taken before the others are refused."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Request)
        self.objects: dict[str, bytes] = {}
        self.uploads: dict[str, tuple[str, dict[int, bytes]]] = {}
        self.fails: int | None = None
        self.url = f"http://127.0.0.1:{self.server_port}"


class Request(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Storage

    def _answer(self, status: int, content: str | bytes = b"", **headers: str) -> None:
        body = content.encode() if isinstance(content, str) else content
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, f"<Error><Code>{code}</Code><Message>{code} of the test</Message></Error>")

    def _handle(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, query = urlsplit(self.path).path, urlsplit(self.path).query
        if not self._is_signed(path, query, body):
            return self._refuse(403, "SignatureDoesNotMatch")
        md5 = base64.b64encode(hashlib.md5(body).digest()).decode()
        if self.headers.get("Content-MD5", md5) != md5:
            return self._refuse(400, "BadDigest")
        bucket, _, key = unquote(path).removeprefix("/").partition("/")
        if bucket != "backups":
            return self._refuse(404, "NoSuchBucket")
        return self._carry_out(key, dict(parse_qsl(query, keep_blank_values=True)), body)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _handle  # noqa: N815

    def _is_signed(self, path: str, query: str, body: bytes) -> bool:
        """Signature version 4 of the whole body."""
        found = AUTHORIZATION.fullmatch(self.headers.get("Authorization", ""))
        sha256 = self.headers.get("x-amz-content-sha256", "")
        if not found or found["key"] != KEY or sha256 != hashlib.sha256(body).hexdigest():
            return False
        pairs = sorted((quote(k, "-_.~"), quote(v, "-_.~")) for k, v in parse_qsl(query, keep_blank_values=True))
        names = found["signed"].split(";")
        headers = "".join(f"{name}:{' '.join(self.headers.get(name, '').split())}\n" for name in names)
        request = "\n".join(
            [self.command, path, "&".join(f"{k}={v}" for k, v in pairs), headers, found["signed"], sha256]
        )
        digest = hashlib.sha256(request.encode()).hexdigest()
        text = f"AWS4-HMAC-SHA256\n{self.headers['x-amz-date']}\n{found['scope']}\n{digest}"
        key = f"AWS4{SECRET}".encode()
        for step in (*found["scope"].split("/"), text):
            key = hmac.digest(key, step.encode(), "sha256")
        return hmac.compare_digest(key.hex(), found["of"])

    def _carry_out(self, key: str, query: dict[str, str], body: bytes) -> None:
        objects, uploads, upload = self.server.objects, self.server.uploads, query.get("uploadId", "")
        match self.command:
            case "POST" if "uploads" in query:
                uploads[(new := f"upload-{len(uploads)}-{key}")] = key, {}
                self._answer(200, f"<X><UploadId>{new}</UploadId></X>")
            case "PUT" if upload and self.server.fails is not None and self.server.fails <= len(uploads[upload][1]):
                self._refuse(507, "OutOfSpace")
            case "PUT" if upload:
                uploads[upload][1][int(query["partNumber"])] = body
                self._answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
            case "POST" if upload:
                _, parts = uploads.pop(upload)
                numbers = [int(number) for number in re.findall(rb"<PartNumber>(\d+)", body)]
                objects[key] = b"".join(parts[number] for number in numbers)
                self._answer(200, "<X><ETag>whole</ETag></X>")
            case "DELETE":
                uploads.pop(upload, None) if upload else objects.pop(key, None)
                self._answer(204)
            case "GET" if "uploads" in query:
                named = [(one, of) for one, (of, _) in uploads.items() if of.startswith(query.get("prefix", ""))]
                self._answer(200, self._listed("Upload", [{"Key": of, "UploadId": one} for one, of in named]))
            case "GET" if not key:
                here = [one for one in sorted(objects) if one.startswith(query["prefix"])]
                self._answer(200, self._listed("Contents", [{"Key": k, "Size": str(len(objects[k]))} for k in here]))
            case "GET" | "HEAD" if key in objects:
                self._answer(200, objects[key])
            case _:
                self._refuse(404, "NoSuchKey")

    def _listed(self, name: str, entries: list[dict[str, str]]) -> str:
        inner = ("".join(f"<{key}>{value}</{key}>" for key, value in entry.items()) for entry in entries)
        return f"<X>{''.join(f'<{name}>{one}</{name}>' for one in inner)}</X>"

    def log_message(self, *_: object) -> None:
        """Requests are not logged."""


@contextmanager
def serving() -> Iterator[Storage]:
    with Storage() as storage:
        threading.Thread(target=storage.serve_forever, daemon=True).start()
        yield storage
        storage.shutdown()
