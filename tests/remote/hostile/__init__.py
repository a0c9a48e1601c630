"""An agent that breaks HTTP and A2A in every way."""
