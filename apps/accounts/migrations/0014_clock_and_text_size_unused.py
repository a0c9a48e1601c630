"""The columns stay for processes of the version before, with a default for those of this one. A later version drops them."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0013_members_make_agents'),
    ]

    operations = [
        migrations.AlterField(
            model_name='user',
            name='clock',
            field=models.CharField(blank=True, db_default='', max_length=2),
        ),
        migrations.AlterField(
            model_name='user',
            name='text_size',
            field=models.CharField(blank=True, db_default='', max_length=5),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.RemoveField(model_name='user', name='clock'),
                migrations.RemoveField(model_name='user', name='text_size'),
            ],
        ),
        migrations.AlterField(
            model_name='user',
            name='appearance_version',
            field=models.PositiveIntegerField(default=0, editable=False, help_text='Rises with each change of theme or time zone.'),
        ),
    ]
