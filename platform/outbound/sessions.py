"""requests through the guard: `session.mount("https://", Adapter())`, and the same for http."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Mapping
from typing import Any

import requests
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict
from requests.utils import get_encoding_from_headers

import outbound
from outbound.errors import OutboundError, TooSlow
from outbound.exchanges import Answer, Limits


class Adapter(BaseAdapter):
    """Reads each answer whole, within `limits`; the session's own proxies, certificates and cookies play no part.

    It is for threads that run no event loop. Its errors are requests' ConnectionError and Timeout, caused by ours.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__()
        self._limits = limits or Limits()

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: Mapping[str, str] | None = None,
    ) -> requests.Response:
        try:
            answer, content = asyncio.run(self._exchanged(request))
        except TooSlow as error:
            raise requests.Timeout(str(error), request=request) from error
        except OutboundError as error:
            raise requests.ConnectionError(str(error), request=request) from error
        return _response(request, answer, content)

    async def _exchanged(self, request: requests.PreparedRequest) -> tuple[Answer, bytes]:
        body = request.body or b""
        content = body.encode() if isinstance(body, str) else body
        if not isinstance(content, bytes):
            raise requests.RequestException("Only a body that is in memory can be sent.", request=request)
        named = {name: str(value) for name, value in request.headers.items() if name.lower() != "content-length"}
        async with (
            outbound.exchange(self._limits) as way,
            way.send(request.method or "GET", request.url or "", named, content) as answer,
        ):
            return answer, await answer.read()

    def close(self) -> None:
        """Nothing stays open between requests."""


def _response(request: requests.PreparedRequest, answer: Answer, content: bytes) -> requests.Response:
    response = requests.Response()
    response.status_code = answer.status
    response.reason = answer.reason.decode("latin-1")
    response.headers = CaseInsensitiveDict({k.decode("latin-1"): v.decode("latin-1") for k, v in answer.headers})
    response.encoding = get_encoding_from_headers(response.headers)
    response.raw = io.BytesIO(content)
    response.url = request.url or ""
    response.request = request
    return response
