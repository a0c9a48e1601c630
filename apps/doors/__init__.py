"""Other protocols over the A2A server's requests and errors, `engine.send` and the feed.

They are OpenAI's API, MCP, AG-UI and LangGraph's API.
"""
