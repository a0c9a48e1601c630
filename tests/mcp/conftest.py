from tests.a2a.conftest import served  # noqa: F401 fixtures
from tests.doors.conftest import ada_key, bob_key, speaking  # noqa: F401 fixtures
