"""Slack: an app of one's own, by the Events API, interactivity and the Web API (https://docs.slack.dev)."""
