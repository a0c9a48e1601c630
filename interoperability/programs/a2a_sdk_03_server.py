from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.apps import A2AStarletteApplication
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TextPart
from a2a.utils import new_task
from serving import CARD, URL, answer, serve


class Turns(AgentExecutor):
    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = context.current_task or new_task(context.message)
        await event_queue.enqueue_event(task)
        updater = TaskUpdater(event_queue, task.id, task.context_id)
        text = TextPart(text=answer(task.context_id, context.get_user_input()))
        await updater.add_artifact([Part(root=text)], name="answer")
        await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


skill = AgentSkill(id="turns", name="Turns", description="Counts turns.", tags=["turns"])
card = AgentCard(**CARD, url=URL, capabilities=AgentCapabilities(streaming=True), skills=[skill])
serve(A2AStarletteApplication(card, DefaultRequestHandler(Turns(), InMemoryTaskStore())).build())
