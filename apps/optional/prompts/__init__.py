"""A library of prompts: texts with variables that people keep, share with their workspace, and put into messages."""
