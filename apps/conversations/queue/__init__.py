"""Messages that wait until the agent of a session is free."""
