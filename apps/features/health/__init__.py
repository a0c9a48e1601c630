"""How agents do: measured latency and success, and whether they can work at all."""
