"""An author's module that imports only after a gate opens."""

from tests.engine import gates

gates.IMPORTING.set()
if not gates.GO_ON.wait(10):
    raise TimeoutError("nobody could open the gate")


def handler(text: str) -> str:
    return "here"
