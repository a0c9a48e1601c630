"""Small agents that show what an agent is; each fits on a screen."""
