"""An agent that does everything wrong that can be done over HTTP, and what becomes of the work that it is given."""
