from django.db import migrations, models

from parley.db.indexes import AddIndexBesideWriters


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('record', '0004_failed_runs_by_reason'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='artifact',
            index=models.Index(fields=['artifact_id'], name='artifacts_by_their_id', opclasses=['varchar_pattern_ops']),
        ),
    ]
