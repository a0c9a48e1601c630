from django.db import migrations, models

from db.indexes import AddIndexBesideWriters


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("record", "0012_families_of_forks"),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name="context",
            index=models.Index(
                condition=models.Q(("imported_at__isnull", False)), fields=["imported_at"], name="imported_contexts"
            ),
        ),
    ]
