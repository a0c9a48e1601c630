from tests.engine.conftest import agent, agent_at  # noqa: F401 fixtures
