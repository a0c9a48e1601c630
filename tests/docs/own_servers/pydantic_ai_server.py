"""The agent of the guide, served by FastA2A."""

from fasta2a.pydantic_ai import agent_to_a2a
from shop import clerk

app = agent_to_a2a(clerk)
