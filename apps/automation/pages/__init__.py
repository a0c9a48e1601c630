"""Schedules and incoming webhooks on people's pages."""
