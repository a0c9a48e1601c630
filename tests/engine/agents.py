"""Misbehaving agents, and some that repeat their input."""

import asyncio
import threading

from agentkit import (
    Artifact,
    AuthRequired,
    Completed,
    Credential,
    Failed,
    InputRequired,
    ResponseType,
    SkillHandler,
    TaskContext,
)
from agentkit.outcomes import AuthType


class Waiting(SkillHandler):
    begun = threading.Event()
    stopped = threading.Event()

    async def on_request(self, task: TaskContext) -> str:
        if task.message.text != "wait":
            return f"went on with {task.message.text}"
        await task.artifact("draft").append("half")
        Waiting.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            Waiting.stopped.set()
        return ""


class WaitingInAThread(SkillHandler):
    begun = threading.Event()
    stopped = threading.Event()

    def on_request(self, task) -> None:
        try:
            while True:
                task.progress("still here")
                WaitingInAThread.begun.set()
        finally:
            WaitingInAThread.stopped.set()


class Counting(SkillHandler):
    response_type = ResponseType.MESSAGE
    asked = 0

    async def on_request(self, task: TaskContext) -> Completed:
        Counting.asked += 1
        if task.message.text == "TimeoutError":
            raise TimeoutError
        if task.message.text == "slow":
            await asyncio.Event().wait()
        await asyncio.sleep(0)
        return Completed(f"answer {Counting.asked}")


class Stuck(SkillHandler):
    time_limit = 0.1
    retry_safe = True
    let_go = threading.Event()

    def on_request(self, task) -> str:
        Stuck.let_go.wait()
        return "at last"


class StuckAnswering(Stuck):
    response_type = ResponseType.MESSAGE


class Calendar(SkillHandler):
    name = "Calendar"
    auth_type: AuthType = "api_key"
    lent: Credential | None = None

    async def on_request(self, task: TaskContext) -> object:
        credential = await task.credential("calendar")
        Calendar.lent = credential
        if credential is None:
            return AuthRequired("I need your key.", service="calendar", auth_type=self.auth_type)
        match task.message.text:
            case "leak":
                return await self._leak(task, credential.secret)
            case "raise":
                raise RuntimeError(f"{credential.secret} is refused")
            case "fail":
                return Failed(f"{credential.secret} is refused")
            case "ask":
                task.memory["secret"] = {credential.secret: [credential.secret]}
                task.session.memory["secret"] = credential.secret
                return InputRequired(f"Is {credential.secret} right?")
            case "pass on":
                called = await task.call("shouting", [credential.secret, {"data": {"key": credential.secret}}])
                return called.text
            case "show":
                return f"{credential} {credential!r}"
            case "ask again":
                return AuthRequired("It is refused.", service="calendar")
        return Completed("The calendar is open.")

    async def _leak(self, task: TaskContext, secret: str) -> object:
        await task.progress(f"with {secret}")
        for letter in f"tokens {secret} and more":
            await task.token(letter)
        await task.thought(secret)
        await task.tool_result(await task.tool_call("open", {"key": secret}), "open", [secret])
        await task.artifact("log").append(f"opened with {secret}")
        await task.artifact("file").append(secret.encode())
        return Completed(f"said {secret}", [Artifact.json("data", {"key": secret})])
