"""All forms of handlers; the message says how each ends."""

from agentkit import (
    AgentFailure,
    Artifact,
    AuthRequired,
    Completed,
    Failed,
    InputRequired,
    Rejected,
    ResponseType,
    SkillHandler,
    TaskContext,
)
from agentkit.llm import LlmWorker

ENDS = {
    "completed": Completed("done", [Artifact.text("a", "x")], metadata={"kind": "test"}),
    "asking": InputRequired("which?", "word", metadata={"kind": "test"}),
    "credential": AuthRequired("key?", metadata={"kind": "test"}),
    "failed": Failed("no", "broken", metadata={"kind": "test"}),
    "rejected": Rejected("never", metadata={"kind": "test"}),
    "text": "words",
    "dict": {"n": 1},
    "state": {"state": "input-required", "prompt": "which?", "service": "test"},
    "nothing": None,
}


class Forgetting(SkillHandler):
    """Says its answer and streams a file, and returns nothing."""

    async def on_request(self, task: TaskContext) -> None:
        for word in task.message.text.split():
            await task.token(f"{word} ")
        async with task.artifact("log.txt") as log:
            await log.append("1 line")


def end(text):
    if text == "raises failure":
        raise AgentFailure("no", "broken")
    if text == "raises error":
        raise RuntimeError("boom")
    return object() if text == "wrong type" else ENDS[text]


def function(text):
    return end(text)


def options(task: TaskContext):
    return str(dict(task.session.options))


def setting_options(task: TaskContext):
    task.session.options["tone"] = "warm"


class Answering(SkillHandler):
    """Answers at once with how it is set up."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> str:
        return str(dict(task.session.options))


class Advised(SkillHandler):
    """Asks the language model that people choose."""

    offers_models = True

    async def on_request(self, task: TaskContext) -> str:
        return await LlmWorker("Help.").run(task)
