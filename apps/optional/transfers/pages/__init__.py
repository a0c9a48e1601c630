"""Imports and the archive of an account on people's pages."""
