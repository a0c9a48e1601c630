"""How Parley authenticates itself to remote agents: what a card requires, what was given for it, and who sends it."""
