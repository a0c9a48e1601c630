"""Budgets that pay by themselves what tasks ask for, up to a limit."""
