"""Connections to remote agents are reused, separated by origin, and closed with the loop."""

import asyncio
import json
import threading
from typing import Any

import pytest

from apps.remote import a2a_client
from apps.remote.errors import RemoteError, Unreachable
from tests.outbound.receiving import server
from tests.remote.reaching import answer, card_at, event, head, said, task

pytestmark = pytest.mark.usefixtures("outward")

STREAMS = 100
ASKED = {"task": task()}
DONE = {"statusUpdate": {"taskId": "t-1", "contextId": "c-1", "status": {"state": "TASK_STATE_COMPLETED"}}}


class Lasting:
    """A server that keeps its connections open and counts them."""

    def __init__(self) -> None:
        self.opened = 0
        self.left = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.opened += 1
        try:
            while request := await reader.readuntil(b"\r\n\r\n"):
                length = next(line for line in request.lower().split(b"\r\n") if line.startswith(b"content-length"))
                await reader.readexactly(int(length.split(b":")[1]))
                body = json.dumps({"jsonrpc": "2.0", "id": "1", "result": task()}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
                )
                writer.write(body)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()


def test_a_connection_serves_one_call_after_the_other_and_is_closed_when_its_loop_ends():
    lasting = Lasting()
    serving = asyncio.new_event_loop()
    listening = serving.run_until_complete(asyncio.start_server(lasting.serve, "127.0.0.1", 0))
    thread = threading.Thread(target=serving.run_forever)
    thread.start()

    async def ask() -> None:
        for _ in range(5):
            async with a2a_client.connect(
                card_at(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/")
            ) as peer:
                await peer.get("t-1")

    try:
        asyncio.run(ask())
        asyncio.run_coroutine_threadsafe(lasting.left.wait(), serving).result(10)
        assert lasting.opened == 1
    finally:
        serving.call_soon_threadsafe(listening.close)
        serving.call_soon_threadsafe(serving.stop)
        thread.join()
        serving.close()


async def test_agents_that_hang_take_no_connection_from_others(settings: Any):
    settings.REMOTE_CONNECTIONS, settings.REMOTE_CONNECT_SECONDS = 5, 0.3
    ended = asyncio.Event()

    async def hangs(_: bytes, __: asyncio.StreamWriter) -> None:
        await ended.wait()

    async def ask(url: str) -> RemoteError | None:
        try:
            async with a2a_client.connect(card_at(url)) as peer:
                await peer.get("t-1")
        except RemoteError as error:
            return error
        return None

    async with server(hangs) as hanging, server(answer(task())) as healthy:
        asking = [asyncio.create_task(ask(hanging.url)) for _ in range(20)]
        done, pending = await asyncio.wait(asking, timeout=2, return_when=asyncio.ALL_COMPLETED)
        assert len(pending) == 5  # the limit of the origin; there was no room for the others
        assert all(isinstance(one.result(), Unreachable) and one.result().was_sent is False for one in done)
        async with asyncio.timeout(10):  # hanging requests hang for longer
            assert await ask(healthy.url) is None
        for one in pending:
            one.cancel()
        await asyncio.wait(pending)
        ended.set()


async def test_many_streams_at_once_take_no_threads():
    there, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def streaming(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head("text/event-stream") + event(ASKED))
        await go_on.wait()
        writer.write(event(DONE))

    async def follow(url: str) -> int:
        async with a2a_client.connect(card_at(url)) as peer:
            count = 0
            async for _ in peer.send(said("hello")):
                count += 1
                there.release()
            return count

    async with server(streaming) as serving:
        threads = threading.active_count()
        following = [asyncio.create_task(follow(serving.url)) for _ in range(STREAMS)]
        async with asyncio.timeout(120):
            for _ in range(STREAMS):
                await there.acquire()
            assert threading.active_count() - threads <= 1
            go_on.set()
            assert await asyncio.gather(*following) == [2] * STREAMS


async def test_a_stream_that_is_left_gives_its_connection_back(settings: Any):
    settings.REMOTE_CONNECTIONS = 1
    gone = asyncio.Event()

    async def streaming(_: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(head("text/event-stream") + event(ASKED))
        await writer.drain()
        await writer.wait_closed()
        gone.set()

    async with server(streaming) as serving:
        for _ in range(3):
            async with a2a_client.connect(card_at(serving.url)) as peer:
                events = peer.send(said("hello"))
                assert await anext(events) == ASKED
                await events.aclose()
