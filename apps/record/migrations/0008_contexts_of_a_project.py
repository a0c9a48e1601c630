from django.db import migrations, models

from parley.db.indexes import AddIndexBesideWriters


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('record', '0007_project_of_a_session'),
    ]

    operations = [
        AddIndexBesideWriters(
            model_name='context',
            index=models.Index(
                condition=models.Q(('project__isnull', False)),
                fields=['project', '-updated_at', '-id'],
                name='contexts_of_a_project',
            ),
        ),
    ]
