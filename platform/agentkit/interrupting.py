"""Ending Python code that does not end by itself: an exception is raised in its thread, wherever it is.

Code that waits in the operating system, or computes outside Python, notices only when it comes back.
"""

import ctypes
import threading
from collections.abc import Callable

_raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
_raise_in.argtypes = [ctypes.c_ulong, ctypes.py_object]
_NOTHING = ctypes.py_object()


def interrupt(thread: int, kind: type[BaseException]) -> None:
    """Have `kind` raised in the thread of this identifier, soon."""
    _raise_in(thread, kind)


class Interruptible:
    """A call that another thread can interrupt for as long as it lasts, and not a moment longer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: int | None = None

    def run[T](self, call: Callable[[], T]) -> T:
        self._thread = threading.get_ident()
        try:
            return call()
        finally:
            try:
                self._end()
            except BaseException:  # it came at the very end
                self._end()
                raise

    def interrupt(self, kind: type[BaseException]) -> None:
        """Have `kind` raised in the call, if it has begun and not ended."""
        with self._lock:
            if self._thread is not None:
                interrupt(self._thread, kind)

    def _end(self) -> None:
        """Nothing is raised from here on, not even what was to be raised and has not been yet."""
        with self._lock:
            self._thread = None
            _raise_in(threading.get_ident(), _NOTHING)
