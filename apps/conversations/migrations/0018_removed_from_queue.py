from django.db import migrations, models


class Migration(migrations.Migration):
    """What was deleted from a queue can be had back for a while."""

    dependencies = [
        ('conversations', '0017_queued_messages'),
    ]

    operations = [
        migrations.AddField(
            model_name='queuedmessage',
            name='removed_at',
            field=models.DateTimeField(blank=True, help_text='When its owner deleted it.', null=True),
        ),
    ]
