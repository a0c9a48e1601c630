from collections.abc import AsyncIterator

from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai.types import Content, Part
from serving import PORT, serve


class Turns(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncIterator[Event]:
        told = [event.content.parts[0].text for event in ctx.session.events if event.author == "user"]
        content = Content(role="model", parts=[Part(text=f"{len(told)}: {told[-1]}")])
        yield Event(invocation_id=ctx.invocation_id, author=self.name, content=content)


serve(to_a2a(Turns(name="turns", description="Counts turns."), host="127.0.0.1", port=PORT))
