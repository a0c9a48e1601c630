"""What `slow_to_import` waits for."""

import threading

IMPORTING = threading.Event()
GO_ON = threading.Event()
