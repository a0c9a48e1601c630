"""An author's module that takes its time: it is imported only once somebody opens the gate."""

from tests.engine import gates

gates.IMPORTING.set()
if not gates.GO_ON.wait(10):
    raise TimeoutError("nobody could open the gate")


def handler(text: str) -> str:
    return "here"
