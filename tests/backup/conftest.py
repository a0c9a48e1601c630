from tests.operators.conftest import at_low_cost, own_files  # noqa: F401 fixtures
from tests.plans.conftest import agents, plan, play  # noqa: F401 fixtures
