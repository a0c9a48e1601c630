"""Agents with health set by a test."""

from agentkit import SkillHandler


class Moody(SkillHandler):
    missing = ""

    async def on_request(self, task) -> str:
        return "fine"

    def ailment(self) -> str:
        if Moody.missing == "raise":
            raise RuntimeError("no mood")
        return Moody.missing
