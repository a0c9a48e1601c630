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
    Outcome,
    ResponseType,
    SkillHandler,
    SyncTaskContext,
    TaskContext,
)
from agentkit.outcomes import AuthType


class Raising(SkillHandler):
    async def on_request(self, task: TaskContext) -> None:
        await task.artifact("draft").append("half")
        raise {"RuntimeError": RuntimeError, "TimeoutError": TimeoutError, "OSError": OSError}[task.message.text](
            "boom"
        )


class Nonsense(SkillHandler):
    async def on_request(self, task: TaskContext) -> object:
        match task.message.text:
            case "object":
                return object()
            case "nan":
                return {"value": float("nan")}
            case "unserialisable":
                return {"value": object()}
            case "memory":
                task.memory["thing"] = object()
                return "done"
            case "chunk":
                await task.artifact("data").append({"value": float("inf")})
                return "done"
            case _:
                return f"nul \0 and half a pair \ud83d of {task.message.text}"


class Slow(SkillHandler):
    time_limit = 0.2

    async def on_request(self, task: TaskContext) -> None:
        await task.artifact("draft").append("half")
        await asyncio.Event().wait()


class Flooding(SkillHandler):
    time_limit = 20

    async def on_request(self, task: TaskContext) -> str:
        await task.tool_call("count", {"up to": 10**5000})
        for number in range(2000):
            await task.progress(f"step {number}")
        return "done"


class Large(SkillHandler):
    async def on_request(self, task: TaskContext) -> Artifact:
        return Artifact.bytes("large.bin", b"x" * 500_000, "application/octet-stream")


class Measuring(SkillHandler):
    async def on_request(self, task: TaskContext) -> str:
        artifacts = [artifact for reference in task.references for artifact in reference.artifacts]
        sizes = [len(task.message.text), *(len(artifact.files[0].read()) for artifact in artifacts)]
        return " ".join(map(str, sizes))


class Talking(SkillHandler):
    async def on_request(self, task: TaskContext) -> None:
        for number in range(200):
            await task.token(f"{number} ")
        await task.thought("hm")
        await task.tool_result(await task.tool_call("add", {"a": 1}), "add", 2)
        async with task.artifact("lines") as lines:
            for number in range(50):
                await lines.append(f"{number}\n")


class Remembering(SkillHandler):
    async def on_request(self, task: TaskContext) -> Outcome:
        seen = task.memory.setdefault("seen", [])
        seen.append(task.message.text)
        task.memory["large"] = 2**60
        return InputRequired("More?", slot="more") if len(seen) < 3 else Completed(", ".join(seen))


class Waiting(SkillHandler):
    begun = threading.Event()
    stopped = threading.Event()
    said = True

    async def on_request(self, task: TaskContext) -> str:
        if task.message.text != "wait":
            return f"went on with {task.message.text}"
        if self.said:
            await task.artifact("draft").append("half")
        Waiting.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            Waiting.stopped.set()
        return ""


class SlowerThanUsual(SkillHandler):
    """Goes on once its caller was told."""

    usual_seconds = 0.01
    time_limit = None
    told = threading.Event()

    def on_request(self, task: SyncTaskContext) -> str:
        SlowerThanUsual.told.wait(30)
        return "done"


class WaitingSilently(Waiting):
    said = False


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


class Stoppable(SkillHandler):
    begun = threading.Event()
    stopped = threading.Event()

    async def on_request(self, task: TaskContext) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped.set()


class Forwarding(SkillHandler):
    """Delivers the parts that the message names; with "streamed" as a stream."""

    async def on_request(self, task: TaskContext) -> Artifact | None:
        parts = [part for value in task.message.data for part in value]
        if task.message.text == "streamed":
            for part in parts:
                await task.artifact("stream").append(part)
            return None
        return Artifact(parts or [file.part for file in task.files], "forwarded")


class ForwardingAtOnce(SkillHandler):
    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> Completed:
        return Completed(task.message.data[0])


class Stuck(SkillHandler):
    time_limit = 0.1
    retry_safe = True
    let_go = threading.Event()

    def on_request(self, task) -> str:
        Stuck.let_go.wait()
        return "at last"


class StuckAnswering(Stuck):
    response_type = ResponseType.MESSAGE


class Asking(SkillHandler):
    async def on_request(self, task: TaskContext) -> Outcome:
        task.memory["asked"] = task.message.text
        ask = AuthRequired if task.message.text == "credential" else InputRequired
        return ask("May I?", slot="leave", schema={"type": "string"})

    async def on_input_received(self, task: TaskContext) -> str:
        how = "resumed" if task.resumed else "answered"
        return f"{how} {task.slot} with {task.message.text}, having asked for {task.memory['asked']}"


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
            case "print":
                print(credential.secret)
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


class CalendarInAThread(SkillHandler):
    def on_request(self, task: SyncTaskContext) -> object:
        credential = task.credential("calendar")
        if credential is None:
            return AuthRequired("I need your password.", service="calendar", auth_type="basic")
        return Completed(f"opened by {credential.username}")


class Elsewhere(SkillHandler):
    async def on_request(self, task: TaskContext) -> Outcome:
        return AuthRequired("Sign in at calendar.invalid, then write to me.")

    async def on_input_received(self, task: TaskContext) -> str:
        return "You did."
