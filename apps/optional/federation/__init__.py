"""Pairing with other installations, which then use each other's agents: codes, and lists that stay fresh."""
