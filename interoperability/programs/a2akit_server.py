from a2akit import A2AServer, AgentCardConfig, CapabilitiesConfig, TaskContext, Worker
from serving import CARD, serve


class Turns(Worker):
    async def handle(self, ctx: TaskContext) -> None:
        turn = (await ctx.load_context() or 0) + 1
        await ctx.update_context(turn)
        await ctx.complete(f"{turn}: {ctx.user_text}")


card = AgentCardConfig(**CARD, capabilities=CapabilitiesConfig(streaming=True))
serve(A2AServer(worker=Turns(), agent_card=card).as_fastapi_app())
