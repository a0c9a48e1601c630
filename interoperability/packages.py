"""The packages that are tried."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True)
class Package:
    """A package in an environment of its own.

    Attributes:
        name: as its registry has it.
        version: pinned.
        speaks: A2A's version.
        program: the beginning of its programs' names.
        beside: other requirements of the environment.
        is_npm: of npm, otherwise of PyPI.
        clients_own: what does not work when it calls Parley, by what is tried, with the package's own reason.
        servers_own: the same when Parley calls it.
    """

    name: str
    version: str
    speaks: str
    program: str
    beside: tuple[str, ...] = ()
    is_npm: bool = False
    clients_own: dict[str, str] = field(default_factory=dict)
    servers_own: dict[str, str] = field(default_factory=dict)

    def path(self, role: str) -> Path:
        """The program of a role, "client" or "server"."""
        return PROGRAMS / f"{self.program}_{role}.{'mjs' if self.is_npm else 'py'}"

    @property
    def requirements(self) -> list[str]:
        name, _, extra = self.name.partition("[")
        pin = f"@{self.version}" if self.is_npm else f"=={self.version}"
        return [f"{name}{f'[{extra}' if extra else ''}{pin}", *self.beside]

    @property
    def shown(self) -> str:
        return self.name.partition("[")[0]


MIXED = "it sends parts of 1.0 by methods of 0.3, so *message.parts[0].kind: Must be text, file or data.*"

PACKAGES = (
    Package("a2a-sdk[http-server]", "1.3.0", "1.0", "a2a_sdk", ("uvicorn",)),
    Package("a2a-sdk[http-server]", "0.3.26", "0.3", "a2a_sdk_03", ("uvicorn",)),
    Package("@a2a-js/sdk", "1.3.0", "1.0", "a2a_js", ("express@5",), is_npm=True),
    Package("google-adk[a2a]", "2.13.0", "1.0", "adk", ("uvicorn",)),
    Package(
        "agent-framework-a2a", "1.0.0b261022", "1.0", "agent_framework",
        ("agent-framework-core==1.23.0", "a2a-sdk[http-server]==1.3.0", "httpx<1", "uvicorn"),
    ),
    Package(
        "strands-agents[a2a]", "1.62.0", "0.3", "strands",
        clients_own={"second turn": "it sends no context", "question": "it can tell that the agent asks, not answer"},
    ),
    Package(
        "crewai[a2a]", "1.15.30", "0.3", "crewai", ("uvicorn",),
        clients_own={"stream": "it passes no pieces of artifacts on"},
        servers_own={"second turn": "its agent does not see the turn before"},
    ),
    Package(
        "agno[a2a]", "3.1.10", "0.3", "agno", ("fastapi", "python-multipart", "uvicorn"),
        clients_own={"question": "it can tell that the agent asks, not answer"},
    ),
    Package(
        "fasta2a", "2.1.1", "1.0", "fasta2a", ("httpx<1", "uvicorn"),
        clients_own=dict.fromkeys(["message", "stream", "second turn", "question"], MIXED),
    ),
    Package("pydantic-ai-slim", "2.68.0", "1.0", "pydantic_ai", ("fasta2a==2.1.1", "uvicorn")),
    Package("litellm", "1.110.2", "1.0", "litellm", ("a2a-sdk==1.3.0",)),
    Package("a2akit", "0.0.32", "0.3", "a2akit"),
)  # fmt: skip
