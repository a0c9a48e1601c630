"""Admin pages of agents, hosted and remote, and their health."""
