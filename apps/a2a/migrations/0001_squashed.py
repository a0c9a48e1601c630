import apps.accounts.secrets.encryption
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('a2a', '0001_initial'),
        ('a2a', '0002_dead_deliveries'),
        ('a2a', '0003_operators_lists'),
        ('a2a', '0004_webhooks_are_work'),
    ]

    initial = True

    dependencies = [
        ('record', '0001_squashed'),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='PushConfig',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('config_id', models.CharField(help_text="A2A id: the client's own, or the primary key.", max_length=200)),
                        ('url', models.CharField(max_length=2048)),
                        ('token', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='Sent as X-A2A-Notification-Token.')),
                        ('scheme', models.CharField(blank=True, help_text='Of the Authorization header.', max_length=64)),
                        ('credentials', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('version', models.CharField(default='1.0', help_text='The version of A2A in which it is called.', max_length=3)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('due_at', models.DateTimeField(blank=True, help_text='When the first in the queue is to be tried.', null=True)),
                        ('lease_until', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                        ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='push_configs', to='record.task')),
                    ],
                    options={
                        'verbose_name': 'webhook',
                        'indexes': [
                            models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='due_webhooks'),
                            models.Index(fields=['-created_at', '-id'], name='webhooks_by_age'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('task', 'config_id'), name='config_id_is_unique_in_its_task')],
                    },
                ),
                migrations.CreateModel(
                    name='Delivery',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('event_index', models.PositiveBigIntegerField(help_text="Of the event in the context's log.")),
                        ('state', models.CharField(choices=[('waiting', 'Waiting'), ('delivered', 'Delivered'), ('dead', 'given up')], default='waiting', max_length=10)),
                        ('attempts', models.PositiveIntegerField(default=0)),
                        ('last_status', models.PositiveSmallIntegerField(blank=True, help_text='HTTP status of the last answer.', null=True)),
                        ('last_error', models.CharField(blank=True, help_text='Why there was no answer.', max_length=500)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('queued_at', models.DateTimeField(default=django.utils.timezone.now, help_text='Since when it is tried.')),
                        ('finished_at', models.DateTimeField(blank=True, null=True)),
                        ('config', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='a2a.pushconfig')),
                    ],
                    options={
                        'verbose_name_plural': 'deliveries',
                        'indexes': [
                            models.Index(condition=models.Q(('state', 'waiting')), fields=['config', 'event_index'], name='waiting_deliveries'),
                            models.Index(condition=models.Q(('state', 'dead')), fields=['-id'], name='dead_deliveries'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('config', 'event_index'), name='an_event_is_told_once')],
                    },
                ),
            ],
        ),
    ]
