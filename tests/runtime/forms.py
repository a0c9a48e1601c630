"""The forms of handlers, each of which ends as its message says."""

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
    Thread,
    skill,
)

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


def end(text):
    if text == "raises failure":
        raise AgentFailure("no", "broken")
    if text == "raises error":
        raise RuntimeError("boom")
    return object() if text == "wrong type" else ENDS[text]


def function(text):
    return end(text)


async def async_generator(thread: Thread):
    value = end(thread.last.text)
    if value is not None:
        yield value


class AsyncSkilled(SkillHandler):
    @skill()
    async def only(self, task):
        return end(task.message.text)

    @skill()
    async def other(self, task):
        raise AssertionError("nobody chose this")

    async def negotiate(self, message):
        from agentkit import Start

        return Start("only")


class Refining(SkillHandler):
    """Delivers a poem, and afterwards a shorter one."""

    async def on_request(self, task):
        for reference in task.references:
            return reference.artifacts[0].refined("short")
        return Artifact.text("poem.md", "long and long", "text/markdown")


def options(task: TaskContext):
    return str(dict(task.session.options))


def setting_options(task: TaskContext):
    task.session.options["tone"] = "warm"


class Answering(SkillHandler):
    """Answers at once with how it is set up."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> str:
        return str(dict(task.session.options))
