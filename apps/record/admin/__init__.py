"""What operators see of it. Django loads this module."""

from apps.record.admin import record, task_actions, tasks  # noqa: F401
