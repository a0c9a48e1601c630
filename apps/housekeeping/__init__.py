"""Live processes, and the runs of periodic jobs."""
