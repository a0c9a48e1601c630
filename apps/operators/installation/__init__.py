"""Admin pages of what operators set while Parley runs."""
