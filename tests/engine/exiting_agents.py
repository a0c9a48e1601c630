"""Agents whose code raises what ends whole programs."""

import asyncio
import sys

from agentkit import SkillHandler


def leave(task):
    match task.message.text:
        case "exit":
            sys.exit(3)
        case "interrupt":
            raise KeyboardInterrupt
        case "own":
            raise BaseException("its own")


class Exiting(SkillHandler):
    async def on_request(self, task):
        leave(task)


class ExitingInAThread(SkillHandler):
    def on_request(self, task):
        yield "half"
        leave(task)


class ExitingBeside(SkillHandler):
    """Its own task and a callback exit while it waits."""

    async def on_request(self, task):
        asyncio.get_running_loop().call_soon(sys.exit, 3)
        await asyncio.create_task(self.exit())

    async def exit(self):
        sys.exit(3)


class ExitingAtOnce(SkillHandler):
    response_type = "message"

    async def on_request(self, task):
        await asyncio.create_task(ExitingBeside.exit(self))


class ExitingWhileItChooses(SkillHandler):
    def select_response_type(self, message):
        sys.exit(3)

    def negotiate(self, message):
        sys.exit(3)

    def ailment(self):
        sys.exit(3)

    def on_request(self, task):
        return "never"
