"""Sessions, messages, tasks and files in the client API."""
