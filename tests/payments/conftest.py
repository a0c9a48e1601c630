from tests.engine.conftest import agent, agent_at, cast, facilitator, seller  # noqa: F401 fixtures
from tests.remote.conftest import outward  # noqa: F401 a fixture
