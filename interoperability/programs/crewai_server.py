from typing import Any

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore
from crewai import Agent, BaseLLM
from crewai.a2a import A2AServerConfig
from crewai.a2a.utils.task import cancel, execute
from serving import URL, serve


class Repeating(BaseLLM):
    """In place of a language model: says how often it can see what it was told, and the text."""

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> str:
        told = messages[-1]["content"].partition("Current Task:")[2].strip().splitlines()[0]
        return f"Thought: I know the answer.\nFinal Answer: {str(messages).count(told)}: {told}"


class Executor(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        await execute(agent, context, event_queue)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await cancel(context, event_queue)


config = A2AServerConfig(url=URL)
agent = Agent(role="Turns", goal="Repeat.", backstory="None.", llm=Repeating(model="repeating"), a2a=config)
handler = DefaultRequestHandler(Executor(), InMemoryTaskStore())
serve(A2AStarletteApplication(agent.to_agent_card(URL), handler).build())
