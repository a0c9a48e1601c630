"""What people want agents to know about them: instructions of their own, and what was remembered from sessions."""
