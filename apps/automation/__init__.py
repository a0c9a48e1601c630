"""Work that starts by itself.

`targets` starts an agent or a plan for its owner. `schedules` decides when; `jobs` is woken by beat.
"""
