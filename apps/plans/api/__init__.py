"""Plans and their runs in the client API."""
