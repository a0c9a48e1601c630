from tests.operators.conftest import operator_with, own_files  # noqa: F401 fixtures
