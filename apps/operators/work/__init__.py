"""Admin pages of the record: sessions, tasks, plans and webhooks."""
