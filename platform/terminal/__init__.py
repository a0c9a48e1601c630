"""A client of any installation, for terminals. It needs neither Django nor a database."""

COMMANDS = ("login", "logout", "agents", "chat", "tasks", "plans")
