"""`python -m agentkit` is the command `agentkit`."""

from agentkit.command import main

main()
