"""Agents that try to harm others."""

import asyncio
import threading
from typing import ClassVar

from agentkit import Artifact, Completed, InputRequired, SkillHandler, Token

LET_GO = threading.Event()
"""What ends those that nothing else ends, once a test is over."""


class LoopingInAThread(SkillHandler):
    time_limit = 0.3

    def on_request(self, task):
        number = 0
        while not LET_GO.is_set() or number < 0:
            number += 1


class Looping(SkillHandler):
    async def on_request(self, task):
        while not LET_GO.is_set():
            pass


class Sleeping(SkillHandler):
    """Blocks in the operating system, where nothing reaches it."""

    async def on_request(self, task):
        LET_GO.wait(30)


class Bulky(SkillHandler):
    """Delivers 12 MB: whole, or streamed in pieces until it is told to stop."""

    appended = 0

    async def on_request(self, task):
        if task.message.text == "whole":
            return Artifact.bytes("all.bin", b"x" * 12 * 1024**2, "application/octet-stream")
        log = task.artifact("all.txt")
        for Bulky.appended in range(12):
            try:
                await log.append("x" * 1024**2)
            except Exception:
                if task.message.text != "stubborn":
                    raise
        return "done"


class Yielding(SkillHandler):
    def on_request(self, task):
        yield Token("half")
        yield object()


class Late(SkillHandler):
    """Speaks after its end."""

    spoken: ClassVar = threading.Event()

    async def on_request(self, task):
        async def later():
            while task.task_id not in Late.ended:  # noqa: ASYNC110 - the test says so, from another thread
                await asyncio.sleep(0.01)
            for _ in range(3):
                await task.progress("I am still here")
            await task.artifact("late").append("late")
            Late.spoken.set()

        Late.work = asyncio.ensure_future(later())
        return "done"

    ended: ClassVar[set[str]] = set()
    work: ClassVar = None


class Printing(SkillHandler):
    """Prints as many lines as the message says."""

    async def on_request(self, task):
        word, number = task.message.text.split()
        for line in range(int(number)):
            print(word, line)
            if line % 10 == 0:
                await asyncio.sleep(0)
        print("without an end", end="")
        return "done"


class PrintingInAThread(SkillHandler):
    def on_request(self, task):
        print("from a thread")
        return "done"


class Million(SkillHandler):
    async def on_request(self, task):
        for _ in range(1_000_000):
            await task.token("ab")


class Hoarding(SkillHandler):
    """Keeps, asks or says too much."""

    async def on_request(self, task):
        much = "x" * 5 * 1024**2
        match task.message.text:
            case "memory":
                task.memory["much"] = much
            case "slot":
                return InputRequired("?", schema={"type": "string", "description": much})
            case "progress":
                await task.progress(much)
        return Completed("done")


class Blocking(SkillHandler):
    """Waits in its thread for what does not come."""

    begun: ClassVar = threading.Event()

    def on_request(self, task):
        Blocking.begun.set()
        LET_GO.wait(30)
        return "at last"


class Clinging(SkillHandler):
    """Swallows what would end it."""

    time_limit = 0.3

    async def on_request(self, task):
        while not LET_GO.is_set():
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        await task.progress("I am still here")
