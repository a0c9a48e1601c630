"""Operators' pages: Django admin of every app, its dashboard, and its live panels."""
