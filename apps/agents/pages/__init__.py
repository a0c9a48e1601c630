"""Agents on people's pages."""
