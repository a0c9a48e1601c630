"""Small agents. Each shows one pattern."""
