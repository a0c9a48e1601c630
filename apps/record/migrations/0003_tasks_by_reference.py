from django.contrib.postgres.indexes import GinIndex
from django.db import migrations, models

from parley.db.indexes import AddIndexOfPostgres


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('record', '0002_erasing_many'),
    ]

    operations = [
        AddIndexOfPostgres(
            model_name='task',
            index=GinIndex(fields=['references'], name='tasks_by_reference', condition=~models.Q(references=[])),
        ),
    ]
