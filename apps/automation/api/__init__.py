"""Schedules, incoming webhooks and reruns in the client API."""
