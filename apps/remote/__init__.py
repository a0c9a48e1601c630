"""Remote A2A agents: registration, calls, and health.

`a2a_client.py` is the only module that sends A2A requests, through `transport.py`. `execution/` sends a turn, follows
its remote task and cancels it. The approved card is the agent's current version.
"""
