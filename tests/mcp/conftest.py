from tests.doors.conftest import ada_key, bob_key, speaking  # noqa: F401 fixtures
