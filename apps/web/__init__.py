"""The web pages of people.

The server renders pages; scripts insert fragments into them.
"""
