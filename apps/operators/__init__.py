"""The pages of operators: Django admin, its dashboard and live panels."""
