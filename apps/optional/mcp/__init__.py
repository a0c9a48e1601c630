"""A server of the Model Context Protocol at /mcp, over streamable HTTP and without sessions.

Its types are those of the package `mcp-types`. The server of the package `mcp` is not used: it needs a task group that
lives as long as the process, and knows its callers by middleware of its own.
"""
