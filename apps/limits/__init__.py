"""What a workspace, an API key and an agent may use at most, and the refusals that say so."""
