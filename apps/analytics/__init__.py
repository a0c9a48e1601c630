"""Sums of what agents did over time, for dashboards and comparisons of versions."""
