"""A loop: one translates, another judges, until it is good enough or enough was tried."""
