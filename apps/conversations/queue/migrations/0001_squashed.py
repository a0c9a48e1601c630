import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('queue', '0001_initial'),
        ('queue', '0002_api_key'),
        ('queue', '0003_queuedmessage_is_answer'),
    ]

    initial = True

    dependencies = [
        ('record', '0001_squashed'),
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
                ('removed_at', models.DateTimeField(blank=True, help_text='When its owner deleted it.', null=True)),
                ('context', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='queued', to='record.context')),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('api_key', models.CharField(blank=True, db_default='', default='', help_text="The public name of the key that queued it: the task counts for the key's limits.", max_length=100, verbose_name='API key')),
                ('is_answer', models.BooleanField(db_default=False, default=False, help_text="Of a rerun: to the agent's question. It goes away if none comes.")),
            ],
            options={
                'ordering': ['queued_at', 'pk'],
                'indexes': [models.Index(fields=['context', 'queued_at', 'id'], name='queue_of_a_context')],
                'constraints': [models.UniqueConstraint(fields=('context', 'message_id'), name='a_message_is_queued_once')],
            },
        ),
    ]
