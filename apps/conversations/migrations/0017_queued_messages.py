import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):
    """What is said while an agent works waits; what waits for its owner is found by an index."""

    dependencies = [
        ('accounts', '0002_keeping'),
        ('agents', '0008_agent_retention_days'),
        ('conversations', '0016_session_marks'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='QueuedMessage',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('message_id', models.CharField(help_text='Under which it is sent, however often.', max_length=200)),
                ('message', models.JSONField(help_text='A2A parts, referenceTaskIds, metadata.')),
                ('problem', models.TextField(blank=True, help_text='Why it could not be sent, for people.')),
                ('claimed_until', models.DateTimeField(blank=True, help_text='Until when somebody is sending it.', null=True)),
                ('queued_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'ordering': ['queued_at', 'pk'],
            },
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(condition=models.Q(('parent', None), ('state__in', ('input-required', 'auth-required'))), fields=['owner', '-status_at'], name='tasks_that_wait'),
        ),
        migrations.AddField(
            model_name='queuedmessage',
            name='context',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='queued', to='conversations.context'),
        ),
        migrations.AddField(
            model_name='queuedmessage',
            name='owner',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='queuedmessage',
            index=models.Index(fields=['context', 'queued_at', 'id'], name='queue_of_a_context'),
        ),
        migrations.AddConstraint(
            model_name='queuedmessage',
            constraint=models.UniqueConstraint(fields=('context', 'message_id'), name='a_message_is_queued_once'),
        ),
    ]
