"""Agents without work of their own."""

from agentkit import Artifact, Completed, InputRequired, SkillHandler, TaskContext


class Chunks(SkillHandler):
    """Streams as many chunks as the text says, as fast as possible."""

    name = "Chunks"

    async def on_request(self, task: TaskContext) -> Completed:
        async with task.artifact("chunks") as chunks:
            for number in range(int(task.message.text)):
                await chunks.append(f"line {number}\n")
        return Completed("All sent.")


class Waiting(SkillHandler):
    """Asks a question that nobody answers, so that its tasks stay open."""

    name = "Waiting"

    async def on_request(self, task: TaskContext) -> InputRequired | Completed:
        return InputRequired("Is anybody there?", slot="answer")

    async def on_input_received(self, task: TaskContext) -> Completed:
        return Completed("Thank you.", [Artifact.text("answer", task.message.text)])


AGENTS = {
    "bench-chunks": "benchmarks.agents:Chunks",
    "bench-waiting": "benchmarks.agents:Waiting",
    "bench-few": "examples.agents.echo:Echo",
    "bench-many": "examples.agents.echo:Echo",
}
"""By slug. The last two own the bulk-made tasks of the reading benchmark."""
