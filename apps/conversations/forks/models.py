"""Which fork of a conversation a person looks at. Not part of replay."""

from __future__ import annotations

from django.db import models

from apps.accounts.models import User
from apps.record.models import Context


class ChosenLeaf(models.Model):
    """The fork of a session that a person looks at: the newest that they made, or one that they chose since."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, db_index=False, related_name="+")
    root = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="+")
    leaf = models.ForeignKey(Context, on_delete=models.CASCADE, related_name="+")
    chosen_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name_plural = "chosen leaves"
        constraints = [models.UniqueConstraint(fields=["user", "root"], name="one_chosen_leaf_of_a_person_per_tree")]

    def __str__(self) -> str:
        return str(self.leaf_id)
