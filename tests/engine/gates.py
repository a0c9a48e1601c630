"""The gate of `slow_to_import`."""

import threading

IMPORTING = threading.Event()
GO_ON = threading.Event()
