from tests.operators.conftest import operator_with  # noqa: F401 a fixture
