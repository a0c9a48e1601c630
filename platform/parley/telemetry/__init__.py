"""Metrics, traces, logs and reports of errors: what a running Parley tells its operators."""
