"""A folder with an agent whose environment is made in no time: it serves itself by this Python."""

import sys
from pathlib import Path

from apps.deployments import processes

AGENT = """
import os
from agentkit import Completed, InputRequired, SkillHandler


class Loud(SkillHandler):
    async def on_request(self, task):
        if task.message.text == "secret":
            return Completed(os.environ.get("OPENAI_API_KEY", "none"))
        return Completed(task.message.text.upper() + "{mark}")
"""


def write(at: Path, *, mark: str = "!", more: str = "") -> Path:
    """A folder whose agent repeats what it hears, with a mark."""
    at.mkdir(exist_ok=True)
    kit = processes.agents_folder() / "kit"  # the rest of Parley's folder is hidden from it
    serve = f"env PYTHONPATH={kit} {sys.executable} -m agentkit serve agent:Loud --uds $A2A_SOCKET"
    about = f"serve: {serve}\nname: Loud bird\nstarters: [Say hello]\nsecrets: [OPENAI_API_KEY]\n{more}"
    (at / "agent.yaml").write_text(about)
    (at / "agent.py").write_text(AGENT.replace("{mark}", mark))
    return at
