"""Who an agent is, and how it proves that: identities, keys, and signed cards."""
