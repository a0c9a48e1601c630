"""Running agents durably: send, claim, execute, record, give back."""
