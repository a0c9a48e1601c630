"""A part of an agent's new sessions tries a version before all get it."""
