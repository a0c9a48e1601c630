"""What is wrong with an agent's code, or with what it gave back. The texts say what to do."""


class HandlerError(Exception):
    """Something is wrong with an agent's code; the text says what to do."""


class InvalidAnswer(TypeError):
    """A handler returned or yielded what is no answer, or chose a skill that it has not."""
