"""Microsoft Teams: a bot of one's own, by the Bot Framework (https://learn.microsoft.com/microsoftteams/platform/bots)."""
