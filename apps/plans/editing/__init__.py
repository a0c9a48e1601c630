"""The editor of plans.

`edits` change a definition, `texts` keeps the comments of its YAML, and `step_form` is the form of a step. `pages` has
the addresses.
"""
