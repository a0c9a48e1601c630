"""Events that are there keep no hash: their chain begins with the next one. The tables are changed in migrations of
their own, because writers lock both.
"""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('record', '0018_payments'),
    ]

    operations = [
        migrations.AddField(
            model_name='event',
            name='hash',
            field=models.CharField(blank=True, help_text='SHA-256 of the event and of the hash before it.', max_length=64, null=True),
        ),
    ]
