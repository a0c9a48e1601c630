from django.db import migrations, models
from django.db.models.functions import Coalesce

from db.indexes import AddIndexBesideWriters


class Migration(migrations.Migration):
    atomic = False
    dependencies = [
        ("record", "0013_imported_sessions_by_time"),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name="context",
            index=models.Index("owner", Coalesce("root", "id"), name="families_of_an_owner"),
        ),
    ]
