"""Agents as authors write them: a class with a few methods, or just a function."""

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any, ClassVar

from agentkit import negotiation, skills
from agentkit.errors import HandlerError
from agentkit.messages import Message
from agentkit.negotiation import Chooser, Decision, Start
from agentkit.selecting import Choice, ResponseType, Selector
from agentkit.skills import Skill


class SkillHandler:
    """An agent. Subclass it, describe it, and write `on_request`, as `def` or `async def`.

    An agent of several skills has a method for each instead, marked with `@skill`; `on_request` then takes what no
    such method does. A `def` runs in a thread with a `SyncTaskContext`, an `async def` on the event loop with a
    `TaskContext`. All may be generators. One instance serves all tasks at once: what belongs to a task goes into
    `task.memory`, what belongs to the conversation into `task.session.memory`.

    Attributes:
        skills: what the card tells; `load_skills` reads them from a file. Those of `@skill` methods join by themselves.
        choose_skill: decides between several skills where a message names none, such as `by_words(…)`.
        input_modes, output_modes: media types; `*/*` and `text/*` are allowed.
        response_type: how messages are answered: `"task"`, `"message"`, or a selector such as `by_rules(…)`.
        retry_safe: may a turn that a crash cut off be executed again?
        time_limit: seconds that a turn may take.
        attempts: how often a turn is tried at most.
    """

    name: str = ""
    description: str = ""
    version: str = "1.0.0"
    skills: Sequence[Skill] = ()
    choose_skill: Chooser | None = None
    input_modes: Sequence[str] = ("text/plain",)
    output_modes: Sequence[str] = ("text/plain",)
    response_type: Choice | Selector = ResponseType.TASK
    retry_safe: bool = False
    time_limit: float = 600.0
    attempts: int = 3
    skill_methods: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.skill_methods = skills.methods_of(cls)
        if not isinstance(inspect.getattr_static(cls, "skills"), property):
            cls.skills = skills.declared_by(cls, cls.skills)

    # Subclasses choose between two signatures: by these, a type checker lets them.
    def select_response_type(self, *args: Any, **kwargs: Any) -> Any:
        """Chooses for each message; `def`, which runs in a thread, or `async def`.

        Define it as `(self, message)` or `(self, message, task)`: `task` is the newest of the conversation, an
        `ExistingTask` or None. As it is, `response_type` says it all. A message that continues a task is not asked
        about: it stays with its task.
        """
        return self.selector(*args) if callable(self.selector) else self.selector

    @property
    def selector(self) -> Choice | Selector:
        """`response_type` as it was written: a function in the body of a class is no method there."""
        written = inspect.getattr_static(self, "response_type")
        selector: Choice | Selector = written.__func__ if isinstance(written, staticmethod) else written
        return selector

    def negotiate(self, message: Message) -> Decision | Awaitable[Decision]:
        """Which skill takes the message that begins a task? `Start`, `Clarify` or `Reject`; `def` or `async def`.

        As it is: the one that the sender names by `metadata.skillId`, the only one, or what `choose_skill` says.
        Clarify and Reject are answered with a message, without a task; where a task there must be, it asks or is
        rejected.
        """
        if (decided := negotiation.explicit(message, self.skills)) is not None:
            return decided
        if len(self.skills) == 1:
            return Start(self.skills[0].id)
        if self.skills and self.choose_skill is not None:
            return self.choose_skill(message, self.skills)
        needs_one = self.skill_methods and type(self).on_request is SkillHandler.on_request
        return negotiation.which_of(self.skills) if needs_one else Start()

    def on_request(self, task: Any) -> Any:
        """Takes a turn. May return whatever `as_outcome` understands."""
        raise HandlerError(f"{type(self).__name__} has no method for this: define on_request(self, task) in it.")

    # Subclasses choose between two signatures: by these, a type checker lets them.
    def on_input_received(self, *args: Any, **kwargs: Any) -> Any:
        """Takes the turn that answers the question `task.slot`.

        As it is: `on_request` again, or the `@skill` method that took the task. Define it as `(self, task)`, or as
        `(self, task, slot)` and annotate `slot` with what `InputRequired(slot=…)` was given (or a union of that): a
        Pydantic model, of which an answer that does not fit is asked for again, an Enum, or str.
        """
        return self.on_request(*args[:1])

    def ailment(self) -> str:
        """Why the agent cannot work at the moment, as a sentence for operators; "" where it can.

        The host asks from time to time; it must be quick. A missing model or tool is such a reason.
        """
        return ""

    def on_cancel(self, task: Any) -> Any:
        """Cleans up after a stop, within five seconds. It can no longer say anything."""
