from typing import Any

from agent_framework import AgentResponse, AgentSession, BaseAgent, Message
from agent_framework_a2a import A2AExecutor
from serving import answer, serve_executor


class Turns(BaseAgent):
    async def run(self, messages: Any = None, *, session: AgentSession, **kwargs: Any) -> AgentResponse:
        told = messages if isinstance(messages, str) else messages.text
        return AgentResponse(messages=[Message("assistant", [answer(session.session_id, told)])])


serve_executor(A2AExecutor(Turns()))
