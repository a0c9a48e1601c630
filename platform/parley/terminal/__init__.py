"""A client of any installation, for terminals. It needs neither Django nor a database."""

COMMANDS = {
    "login": "Store an address and an API key, after trying them.",
    "logout": "Forget the stored key.",
    "agents": "List the agents that you may use.",
    "chat": "Talk to an agent. Without text: a conversation, or one message from a pipe.",
    "tasks": "List, show and cancel tasks.",
    "plans": "List and run plans.",
    "completion": "Print what completes these commands in your shell.",
}
"""What each does, for `--help`."""
