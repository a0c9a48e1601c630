"""Agents without work of their own."""

from agentkit import Completed, SkillHandler, TaskContext


class Chunks(SkillHandler):
    """Streams as many chunks as the text says, as fast as possible."""

    name = "Chunks"

    async def on_request(self, task: TaskContext) -> Completed:
        async with task.artifact("chunks") as chunks:
            for number in range(int(task.message.text)):
                await chunks.append(f"line {number}\n")
        return Completed("All sent.")


AGENTS = {
    "bench-chunks": "benchmarks.agents:Chunks",
    "bench-many": "examples.agents.echo:Echo",
}
"""By slug. `bench-many` owns bulk-made tasks."""
