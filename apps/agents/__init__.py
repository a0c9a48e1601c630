"""The registry of agents, with their versions and cards.

`registration` creates and changes agents; each change makes a version. `cards` builds agent cards, and
`card_signatures` signs them. `search` finds agents.
"""
