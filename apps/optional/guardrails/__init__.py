"""Checks on what goes to agents and comes from them: rules of a workspace, with what they decided."""
