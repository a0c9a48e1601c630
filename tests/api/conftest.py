from tests.plans.conftest import agents, plan  # noqa: F401 fixtures
