"""Telegram: a bot of one's own, by a webhook and the Bot API (https://core.telegram.org/bots/api)."""
