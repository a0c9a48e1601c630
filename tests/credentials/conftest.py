from tests.engine.conftest import agent, agent_at, cast, published  # noqa: F401 fixtures
