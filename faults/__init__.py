"""Breaks a running Parley under load, and judges by the record whether anything was lost: `python -m faults`.

It is a package of its own, beside `benchmarks`, because it is a program with options and a report and not a test:
pytest would limit its time, run parts of it twice, and hide what it prints. Its own code is tested in `tests/faults`.
"""
