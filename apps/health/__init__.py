"""The health of agents: measured latency and success, and whether they can work."""
