"""A2A 0.3 at the edge: its requests become requests of 1.0, and what 1.0 answers is said in its words."""
