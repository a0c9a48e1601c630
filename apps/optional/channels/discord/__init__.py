"""Discord: a bot of one's own, by interactions, the Gateway and the HTTP API (https://docs.discord.com/developers)."""
