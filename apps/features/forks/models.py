"""What people look at of a conversation and its forks. No part of replay."""

from __future__ import annotations

from django.db import models

from apps.accounts.models import User
from apps.accounts.principals import Principal
from apps.record.models import Context


class ChosenLeafQuerySet(models.QuerySet["ChosenLeaf"]):
    def visible_to(self, principal: Principal) -> ChosenLeafQuerySet:
        return self.filter(user_id=principal.user_id) if principal.user_id is not None else self.none()


class ChosenLeaf(models.Model):
    """In which of a conversation's forks a person is: in the newest that they made, or where they went since."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, db_index=False, related_name="+")
    root = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="+")
    leaf = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="+")
    chosen_at = models.DateTimeField(auto_now=True)

    objects = ChosenLeafQuerySet.as_manager()

    class Meta:
        verbose_name_plural = "chosen leaves"
        constraints = [models.UniqueConstraint(fields=["user", "root"], name="one_chosen_leaf_of_a_person_per_tree")]

    def __str__(self) -> str:
        return str(self.leaf_id)
