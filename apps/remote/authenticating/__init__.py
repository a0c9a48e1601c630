"""How Parley lets itself in at remote agents: what a card asks for, and a signature of each kind."""
