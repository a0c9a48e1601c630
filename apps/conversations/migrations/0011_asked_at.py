import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('conversations', '0010_measured'),
    ]

    operations = [
        migrations.AddField(
            model_name='suspension',
            name='asked_at',
            field=models.DateTimeField(default=django.utils.timezone.now, help_text="The time of the child's status that is the question."),
            preserve_default=False,
        ),
    ]
