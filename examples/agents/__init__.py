"""Small agents that show what an agent is, one pattern each."""
