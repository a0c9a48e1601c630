"""Which agent fits a piece of work: ranking, and the router."""
