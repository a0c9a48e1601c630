from apps.housekeeping import heartbeats, periodic

__all__ = ["heartbeats", "periodic"]  # importing them connects their signals
