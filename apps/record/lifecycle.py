"""The states of a task and the one table of how they may follow each other."""

from django.db import models


class TaskState(models.TextChoices):
    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    AUTH_REQUIRED = "auth-required"
    COMPLETED = "completed"
    FAILED = "failed"
    REJECTED = "rejected"
    CANCELED = "canceled"

    @property
    def is_terminal(self) -> bool:
        """Nothing follows this state."""
        return not TRANSITIONS[self]

    @property
    def is_interrupted(self) -> bool:
        """The task waits for somebody outside."""
        return self in (TaskState.INPUT_REQUIRED, TaskState.AUTH_REQUIRED)

    @property
    def is_settled(self) -> bool:
        """Nobody works on the task: it has ended, or it waits."""
        return self.is_terminal or self.is_interrupted

    @property
    def wire(self) -> str:
        """The state's name in A2A 1.0."""
        return "TASK_STATE_" + self.value.upper().replace("-", "_")

    @classmethod
    def from_wire(cls, name: str) -> "TaskState":
        """The state of an A2A 1.0 name. Raises ValueError for an unknown one."""
        return cls(name.removeprefix("TASK_STATE_").lower().replace("_", "-"))


_S = TaskState
_ANSWERED = frozenset({_S.WORKING, _S.CANCELED, _S.FAILED, _S.REJECTED})

TRANSITIONS: dict[TaskState, frozenset[TaskState]] = {
    _S.SUBMITTED: frozenset({_S.WORKING, _S.REJECTED, _S.CANCELED, _S.FAILED}),
    _S.WORKING: frozenset(
        {_S.WORKING, _S.INPUT_REQUIRED, _S.AUTH_REQUIRED, _S.COMPLETED, _S.FAILED, _S.REJECTED, _S.CANCELED}
    ),
    _S.INPUT_REQUIRED: _ANSWERED,
    _S.AUTH_REQUIRED: _ANSWERED,
    _S.COMPLETED: frozenset(),
    _S.FAILED: frozenset(),
    _S.REJECTED: frozenset(),
    _S.CANCELED: frozenset(),
}
TERMINAL = frozenset(state for state in TaskState if state.is_terminal)
UNFINISHED = tuple(state for state in TaskState if not state.is_terminal)
INTERRUPTED = tuple(state for state in TaskState if state.is_interrupted)


class IllegalTransition(Exception):
    """A task was to change along no line of the table."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(f"A task that is {old} cannot become {new}.")


def check(old: str, new: str) -> None:
    """Raises IllegalTransition unless a task may go from `old` to `new`."""
    if TaskState(new) not in TRANSITIONS[TaskState(old)]:
        raise IllegalTransition(old, new)
