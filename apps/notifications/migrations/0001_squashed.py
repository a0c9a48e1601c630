import apps.accounts.secrets.encryption
import apps.notifications.models
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('notifications', '0001_initial'),
        ('notifications', '0002_channels_begin_with_every_kind'),
        ('notifications', '0003_problem_and_reason_say_when_empty'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='PushKey',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('private', apps.accounts.secrets.encryption.EncryptedTextField(editable=False, help_text='PEM.')),
                        ('public', models.CharField(help_text='An uncompressed P-256 point, in URL-safe base64.', max_length=100)),
                    ],
                ),
                migrations.CreateModel(
                    name='Channel',
                    fields=[
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('previous_secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('previous_until', models.DateTimeField(blank=True, editable=False, help_text='Until when the secret before the last rotation signs, too.', null=True)),
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('type', models.CharField(choices=[('mail', 'E-mail'), ('push', 'Browser'), ('webhook', 'Webhook'), ('slack', 'Slack')], max_length=8)),
                        ('name', models.CharField(blank=True, max_length=120)),
                        ('url', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text="Of a webhook, Slack, or a browser's push service.")),
                        ('push_keys', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='JSON with p256dh and auth.')),
                        ('url_hash', models.CharField(blank=True, editable=False, help_text='SHA-256, so that it is unique.', max_length=64)),
                        ('kinds', models.JSONField(default=apps.notifications.models.every_kind, help_text='Of what it is told.')),
                        ('agents', models.JSONField(blank=True, default=dict, help_text='The same for some agents, by their keys.')),
                        ('digest', models.CharField(choices=[('now', 'At once'), ('quarter', 'Every 15 minutes'), ('hour', 'Every hour'), ('day', 'Once a day, at 8:00')], default='now', help_text='When letters are sent.', max_length=8)),
                        ('questions_at_once', models.BooleanField(default=True, help_text='Whether questions do not wait for the next letter.')),
                        ('is_on', models.BooleanField(default=True, verbose_name='on')),
                        ('problem', models.CharField(blank=True, help_text='Why Parley switched it off. Empty if it did not.', max_length=300)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='channels', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(blank=True, help_text="The only one whose sessions it is told of; empty: all. A key's channels are of its workspace.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(condition=models.Q(('type__in', ['mail', 'push'])), fields=('user', 'type', 'url_hash'), name='one_channel_for_each_address')],
                    },
                ),
                migrations.CreateModel(
                    name='Notification',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('context', models.UUIDField(verbose_name='session')),
                        ('task', models.UUIDField()),
                        ('event_index', models.PositiveBigIntegerField(help_text="Of the event in the session's log.")),
                        ('kind', models.CharField(choices=[('ended', 'Work has ended'), ('failed', 'Work has failed'), ('asks', 'An agent asks you something')], max_length=6)),
                        ('state', models.CharField(choices=[('waiting', 'Waiting'), ('sending', 'Sending'), ('sent', 'Sent'), ('skipped', 'Skipped'), ('failed', 'given up')], default='waiting', max_length=8)),
                        ('reason', models.CharField(blank=True, help_text='Why it was not sent, or is not sent yet.', max_length=300)),
                        ('attempts', models.PositiveIntegerField(default=0)),
                        ('last_status', models.PositiveSmallIntegerField(blank=True, help_text='HTTP status of the last answer.', null=True)),
                        ('due_at', models.DateTimeField()),
                        ('claim', models.UUIDField(blank=True, help_text='Of the worker that sends it.', null=True)),
                        ('lease_until', models.DateTimeField(blank=True, null=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('queued_at', models.DateTimeField(default=django.utils.timezone.now, help_text='Since when it is tried.')),
                        ('finished_at', models.DateTimeField(blank=True, null=True)),
                        ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notifications', to='notifications.channel')),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['channel', '-created_at', '-id'], name='notifications_of_a_channel'),
                            models.Index(fields=['-created_at', '-id'], name='notifications_by_age'),
                            models.Index(condition=models.Q(('state', 'waiting')), fields=['due_at'], name='due_notifications'),
                            models.Index(condition=models.Q(('state', 'sending')), fields=['claim'], name='claimed_notifications'),
                            models.Index(condition=models.Q(('state', 'failed')), fields=['-created_at'], name='failed_notifications'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('channel', 'context', 'event_index'), name='a_channel_is_told_once')],
                    },
                ),
                migrations.CreateModel(
                    name='WebhookSigning',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('previous_secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('previous_until', models.DateTimeField(blank=True, editable=False, help_text='Until when the secret before the last rotation signs, too.', null=True)),
                        ('rotated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='webhook_signing', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name': 'secret of A2A webhooks',
                    },
                ),
            ],
        ),
    ]
