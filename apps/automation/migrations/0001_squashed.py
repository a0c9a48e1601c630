import apps.accounts.secrets.encryption
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('automation', '0001_initial'),
        ('automation', '0002_incoming_webhooks'),
        ('automation', '0003_repeats_and_retries'),
        ('automation', '0004_rerun'),
        ('automation', '0005_signatures'),
        ('automation', '0006_declared_fields'),
        ('automation', '0007_schedules_are_work'),
    ]

    initial = True

    dependencies = [
        ('record', '0001_squashed'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Schedule',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('name', models.CharField(max_length=200)),
                        ('text', models.TextField(blank=True, validators=[django.core.validators.MaxLengthValidator(1000000)], verbose_name='message')),
                        ('inputs', models.JSONField(blank=True, default=dict, help_text='A plan\'s inputs, or data that an agent gets with the message, such as {"topic": "energy"}.', verbose_name='data, as JSON')),
                        ('kind', models.CharField(choices=[('cron', 'At certain times'), ('interval', 'At an interval'), ('once', 'Once')], max_length=10, verbose_name='when')),
                        ('cron', models.CharField(blank=True, help_text='Five fields: minute, hour, day of month, month, day of week. Or a name, such as @daily.', max_length=200, verbose_name='times')),
                        ('every_seconds', models.PositiveIntegerField(blank=True, null=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(2000000000)], verbose_name='interval')),
                        ('at', models.DateTimeField(blank=True, help_text="When it runs once, or from when the interval counts, in the schedule's time zone.", null=True, verbose_name='date and time')),
                        ('time_zone', models.CharField(default='UTC', help_text='A name such as Europe/Berlin.', max_length=64)),
                        ('overlap', models.CharField(choices=[('skip', 'Skip the new run'), ('queue', 'Wait for the earlier run'), ('cancel', 'Cancel the earlier run')], default='skip', max_length=10, verbose_name='if an earlier run still works')),
                        ('catch_up', models.CharField(choices=[('none', 'Do not run'), ('last', 'Run once'), ('all', 'Run for each missed time, up to a limit')], default='last', max_length=10, verbose_name='after the server was down')),
                        ('catch_up_limit', models.PositiveSmallIntegerField(default=10, help_text='The most missed times to run.', validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(20)])),
                        ('next_at', models.DateTimeField(editable=False, help_text='None: it runs no more.', null=True, verbose_name='next run')),
                        ('paused_at', models.DateTimeField(editable=False, null=True, verbose_name='paused')),
                        ('paused_because', models.CharField(editable=False, help_text='Why the server or an operator paused it. Empty if its owner did.', max_length=500)),
                        ('failures', models.PositiveSmallIntegerField(default=0, editable=False, help_text='The number of runs in a row that could not start.')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('updated_at', models.DateTimeField(auto_now=True)),
                        ('agent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='schedules', to='agents.agent', verbose_name='agent or plan')),
                        ('owner', models.ForeignKey(editable=False, on_delete=django.db.models.deletion.CASCADE, related_name='schedules', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(editable=False, on_delete=django.db.models.deletion.CASCADE, related_name='schedules', to='accounts.workspace')),
                        ('lease_until', models.DateTimeField(blank=True, db_column='sending_until', editable=False, null=True)),
                        ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                    ],
                    options={
                        'indexes': [
                            models.Index(condition=models.Q(('paused_at', None)), fields=['next_at'], name='schedules_by_next_time'),
                            models.Index(fields=['owner', 'workspace', '-created_at'], name='schedules_of_a_person'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='ScheduledRun',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('due_at', models.DateTimeField()),
                        ('is_manual', models.BooleanField(default=False, help_text='Whether a person started it.')),
                        ('state', models.CharField(choices=[('waiting', 'is about to start'), ('started', 'Started'), ('skipped', 'Skipped'), ('failed', 'could not start')], default='waiting', max_length=10)),
                        ('text', models.TextField(blank=True)),
                        ('inputs', models.JSONField(blank=True, default=dict)),
                        ('reason', models.CharField(blank=True, help_text='Why it waits, was skipped or could not start.', max_length=500)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('started_at', models.DateTimeField(blank=True, null=True)),
                        ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agent')),
                        ('schedule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='automation.schedule')),
                        ('task', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='scheduled_runs', to='record.task')),
                        ('try_at', models.DateTimeField(blank=True, help_text='Not before; a limit was reached.', null=True)),
                    ],
                    options={
                        'indexes': [models.Index(condition=models.Q(('state', 'waiting')), fields=['schedule', 'due_at'], name='scheduled_runs_that_wait')],
                        'constraints': [models.UniqueConstraint(fields=('schedule', 'due_at'), name='one_run_for_each_due_time')],
                    },
                ),
                migrations.CreateModel(
                    name='IncomingWebhook',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('name', models.CharField(max_length=200)),
                        ('scheme', models.CharField(choices=[('bearer', 'Bearer token'), ('github', 'GitHub'), ('gitlab', 'GitLab'), ('sentry', 'Sentry'), ('slack', 'Slack'), ('stripe', 'Stripe'), ('standard', 'Standard Webhooks'), ('svix', 'Svix'), ('hmac', 'Other HMAC signature')], help_text='How the sender shows that it knows the secret.', max_length=10, verbose_name='who sends')),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('old_secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('old_secret_until', models.DateTimeField(editable=False, help_text='Until when the secret before counts as well.', null=True)),
                        ('text', models.TextField(blank=True, help_text='A template, such as: Review {{ body.pull_request.html_url }}. Without it, the agent gets the event as data. It may use body, headers (by lower-case names), event.id and event.type.', validators=[django.core.validators.MaxLengthValidator(1000000)], verbose_name='message')),
                        ('inputs', models.JSONField(blank=True, default=dict, help_text="A plan's inputs, or data that an agent gets beside the message. Its texts are templates, too.", verbose_name='inputs, as JSON')),
                        ('only_if', models.CharField(blank=True, help_text="An expression, such as: event.type == 'pull_request' and body.action == 'opened'. Events for which it does not hold start nothing.", max_length=1000)),
                        ('paused_at', models.DateTimeField(editable=False, null=True, verbose_name='paused')),
                        ('last_event_at', models.DateTimeField(editable=False, null=True, verbose_name='last event')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='created')),
                        ('updated_at', models.DateTimeField(auto_now=True)),
                        ('agent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='incoming_webhooks', to='agents.agent', verbose_name='agent or plan')),
                        ('owner', models.ForeignKey(editable=False, on_delete=django.db.models.deletion.CASCADE, related_name='incoming_webhooks', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(editable=False, on_delete=django.db.models.deletion.CASCADE, related_name='incoming_webhooks', to='accounts.workspace')),
                        ('signature', models.JSONField(blank=True, help_text='How the sender signs; only of the scheme `hmac`.', null=True)),
                    ],
                    options={
                        'indexes': [models.Index(fields=['owner', 'workspace', '-created_at'], name='webhooks_of_a_person')],
                    },
                ),
                migrations.CreateModel(
                    name='IncomingEvent',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('event_id', models.CharField(help_text="The sender's id.", max_length=200)),
                        ('kind', models.CharField(blank=True, help_text='What happened, as the sender names it.', max_length=200)),
                        ('body', models.JSONField(help_text='Null if that is what was sent.', null=True)),
                        ('headers', models.JSONField(default=dict)),
                        ('state', models.CharField(choices=[('waiting', 'is about to start'), ('started', 'Started'), ('ignored', 'Ignored'), ('failed', 'could not start')], default='waiting', max_length=10)),
                        ('reason', models.CharField(blank=True, help_text='Why it was ignored or could not start.', max_length=500)),
                        ('text', models.TextField(blank=True)),
                        ('inputs', models.JSONField(blank=True, default=dict)),
                        ('is_repeat', models.BooleanField(default=False, help_text='Whether a person sent it again.')),
                        ('received_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('agent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agent')),
                        ('repeats', models.ForeignKey(blank=True, help_text='The event sent again.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='automation.incomingevent')),
                        ('task', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='incoming_events', to='record.task')),
                        ('webhook', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='events', to='automation.incomingwebhook')),
                        ('digest', models.CharField(blank=True, db_default='', help_text='Of a body that is signed without the id; else empty.', max_length=64)),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['webhook', '-received_at', '-id'], name='events_of_a_webhook'),
                            models.Index(condition=models.Q(('state', 'waiting')), fields=['received_at'], name='events_that_wait'),
                        ],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('is_repeat', False)), fields=('webhook', 'event_id'), name='an_event_comes_once')],
                    },
                ),
                migrations.CreateModel(
                    name='Rerun',
                    fields=[
                        ('session', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='rerun', serialize=False, to='record.context')),
                        ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('source', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='reruns', to='record.context')),
                    ],
                ),
            ],
        ),
    ]
