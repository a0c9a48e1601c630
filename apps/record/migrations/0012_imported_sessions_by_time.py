from django.db import migrations, models

from db.indexes import AddIndexBesideWriters


class Migration(migrations.Migration):
    atomic = False
    dependencies = [("record", "0011_imported_sessions")]

    operations = [
        AddIndexBesideWriters(
            "context",
            models.Index(
                condition=models.Q(("imported_at__isnull", False)), fields=["imported_at"], name="imported_contexts"
            ),
        ),
    ]
