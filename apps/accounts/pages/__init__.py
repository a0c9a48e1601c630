"""Accounts, keys, workspaces and signing in on people's pages."""
