from django.db import migrations, models

from parley.db.indexes import AddIndexBesideWriters


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('record', '0003_tasks_by_reference'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='artifact',
            index=models.Index(fields=['artifact_id'], name='artifacts_by_their_id', opclasses=['varchar_pattern_ops']),
        ),
    ]
