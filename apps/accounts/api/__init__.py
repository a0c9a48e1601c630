"""Keys and workspaces in the client API."""
