"""A chain: outline, draft, polish; each step works on what the one before made."""
