"""A chain of agents. `python -m tests.telemetry.agents URL` registers them in the Parley that serves at this URL.

`front` calls `near`, which is a remote agent: `solver`, hosted by the same Parley, with a model and a tool.
"""

import os
import sys

from agentkit import AgentFailure, Message, ResponseType, SkillHandler, TaskContext

HERE = "tests.telemetry.agents"


class Front(SkillHandler):
    """Passes everything on."""

    async def on_request(self, task: TaskContext) -> str:
        return (await task.call("near", task.message.text)).text


class Failing(SkillHandler):
    """Its error quotes the message."""

    async def on_request(self, task: TaskContext) -> str:
        raise ValueError(f"cannot read {task.message.text!r}")


class Choosing(SkillHandler):
    """Quotes the message where it chooses how to answer."""

    def select_response_type(self, message: Message) -> ResponseType:
        raise ValueError(message.text)

    async def on_request(self, task: TaskContext) -> str:
        return "Done."


class Answering(SkillHandler):
    """Quotes the message in the error of an answer."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> str:
        raise OSError(task.message.text)


class Keeping(SkillHandler):
    """Keeps what cannot be kept, and quotes the message."""

    response_type = ResponseType.MESSAGE

    async def on_request(self, task: TaskContext) -> str:
        task.session.memory[task.message.text] = object()
        raise AgentFailure(task.message.text, detail=task.message.text)


def main(url: str) -> None:
    import django

    django.setup()

    from apps.agents.registration import register_hosted
    from apps.remote.registration import register_remote

    register_hosted("front", f"{HERE}:Front")
    register_hosted("solver", "tests.model_agents.agents:Actor", access="public")
    register_remote("near", url=f"{url}/a2a/solver/.well-known/agent-card.json")


if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "parley.settings")
    main(sys.argv[1])
