import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0010_measured'),
    ]

    operations = [
        migrations.AlterField(
            model_name='suspension',
            name='child',
            field=models.ForeignKey(help_text='None: it was cleared.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='suspends', to='conversations.task'),
        ),
        migrations.AddField(
            model_name='suspension',
            name='asked_at',
            field=models.DateTimeField(default=django.utils.timezone.now, help_text="The time of the child's status that is the question."),
            preserve_default=False,
        ),
    ]
