"""People, workspaces, API keys and limits.

A `Principal` is who calls. Every query for somebody's data goes through `visible_to(principal)`.
"""
