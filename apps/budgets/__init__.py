"""What language models cost, by run, session, agent, workspace and month; and budgets that limit it."""
