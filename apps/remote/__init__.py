"""Remote agents: the registry of them, the calls to them, and what becomes of those in the record."""
