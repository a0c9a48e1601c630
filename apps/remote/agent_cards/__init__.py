"""Other agents' cards: fetching, reading, verifying, and what is there instead of one."""
