"""What operators can do with tasks: cancel them, and run them again."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html
from unfold.decorators import action

from apps.engine import canceling
from apps.engine.repeating import run_again
from apps.operators.engine.agents import MeasuredAgentAdmin
from apps.operators.record.tasks import TaskAdmin
from apps.record.errors import Refusal, TaskNotCancelable
from apps.record.lifecycle import TERMINAL
from apps.record.models import Task
from console import cells

__all__ = ["MeasuredAgentAdmin", "OperatedTaskAdmin"]

CANCEL = {
    "title": "Cancel this task?",
    "description": "Its agent is told to stop, and what it has made so far is discarded. This cannot be undone.",
    "form_submit_text": "Cancel the task",
}
AGAIN = {
    "title": "Run this task again?",
    "description": "Its first message is sent once more in its owner's name, as a new task in the same context.",
    "form_submit_text": "Run again",
}


@admin.register(Task)
class OperatedTaskAdmin(TaskAdmin):
    """Tasks with the operators' actions, for those who may change tasks."""

    actions = ("cancel_selected", "run_selected_again")
    actions_detail = ("cancel", "run_again")

    def has_operate_permission(self, request: HttpRequest, object_id: object = None) -> bool:
        return request.user.has_perm("record.change_task")

    def get_actions_detail(self, request: HttpRequest, object_id: str) -> list[Any]:
        """A task that has ended offers no cancel."""
        offered: list[Any] = super().get_actions_detail(request, object_id)
        shown = self.get_object(request, object_id)  # None for an id that is none
        if shown is None or shown.state not in TERMINAL:
            return offered
        return [one for one in offered if one.path != "cancel"]

    @action(description="Cancel", permissions=["operate"], icon="stop_circle", dialog=CANCEL, url_path="cancel")
    def cancel(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        self._cancel(request, list(self.get_queryset(request).filter(pk=object_id)))
        return self._back_to(object_id)

    @action(description="Run again", permissions=["operate"], icon="replay", dialog=AGAIN, url_path="run-again")
    def run_again(self, request: HttpRequest, form: object, object_id: str) -> HttpResponse:
        self._run_again(request, list(self.get_queryset(request).filter(pk=object_id)))
        return self._back_to(object_id)

    @admin.action(description="Cancel", permissions=["operate"])
    def cancel_selected(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._cancel(request, list(tasks))

    @admin.action(description="Run again as new tasks", permissions=["operate"])
    def run_selected_again(self, request: HttpRequest, tasks: QuerySet[Task]) -> None:
        self._run_again(request, list(tasks))

    def _cancel(self, request: HttpRequest, tasks: list[Task]) -> None:
        ended = 0
        for task in tasks:
            try:
                if task.is_finished:
                    raise TaskNotCancelable
                canceling.cancel_found(task)
                self.log_change(request, task, "Canceled.")
            except TaskNotCancelable:
                ended += 1
        if canceled := len(tasks) - ended:
            messages.success(request, f"{_tasks(canceled)} canceled.")
        if ended:
            messages.warning(request, f"{_tasks(ended)} left alone: nothing is to be canceled in what has ended.")

    def _run_again(self, request: HttpRequest, tasks: list[Task]) -> None:
        for task in tasks:
            try:
                receipt = run_again(task)
            except Refusal as refusal:
                messages.error(request, f"Task {task.pk} was not run again. {refusal}")
                continue
            self.log_change(request, task, f"Run again as {receipt.task}.")
            new = cells.link(receipt.task, cells.page_url(Task, receipt.task))
            messages.success(request, format_html("Running again as task {}.", new))

    def _back_to(self, object_id: str) -> HttpResponse:
        """The dialog is htmx's: it follows this header to the task's page, where the messages are."""
        return HttpResponse(headers={"HX-Redirect": cells.page_url(Task, object_id)})


def _tasks(number: int) -> str:
    return "1 task was" if number == 1 else f"{number} tasks were"
