"""Sessions, tasks and the inbox on people's pages."""
