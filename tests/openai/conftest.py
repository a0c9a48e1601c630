from tests.doors.conftest import (  # noqa: F401 fixtures
    ada_key,
    bob_key,
    client,
    greeting,
    modeled,
    openai_for,
    speaking,
)
