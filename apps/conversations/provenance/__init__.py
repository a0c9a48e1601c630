"""What led to an artifact: tasks, messages, agents, versions and files.

Provenance is computed on request, level by level, with a fixed number of queries for each level.
"""
