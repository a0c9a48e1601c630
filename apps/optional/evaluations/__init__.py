"""Examples that an agent must answer as expected, and evaluations of its versions by them."""
