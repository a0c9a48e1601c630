import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('limits', '0001_initial'),
        ('limits', '0002_limits_say_what_is_wrong'),
    ]

    initial = True

    dependencies = [
        ('agents', '0001_squashed'),
    ]

    operations = [
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('requests_per_minute', models.PositiveIntegerField(blank=True, help_text='By A2A and the client API; of an agent: messages to it. Beyond: refused.', null=True)),
                ('running_runs', models.PositiveIntegerField(blank=True, help_text='Further runs wait in the queue.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='runs at work')),
                ('queued_runs', models.PositiveIntegerField(blank=True, help_text='Further messages that start tasks are refused.', null=True, verbose_name='runs in the queue')),
                ('open_streams', models.PositiveIntegerField(blank=True, help_text='At the same time in one web process. Further ones are refused.', null=True)),
                ('storage_bytes', models.PositiveBigIntegerField(blank=True, help_text='Files over 256 KiB. Further ones are refused.', null=True, verbose_name='bytes in files')),
                ('priority', models.PositiveSmallIntegerField(blank=True, choices=[(1, 'High'), (2, 'Normal'), (3, 'Low')], help_text='Of runs whose message asks for none. Empty: normal.', null=True)),
                ('noticed_at', models.DateTimeField(editable=False, help_text='When 80 % of the storage was reported.', null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('agent', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='limit', to='agents.agent')),
                ('api_key', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='limit', to='accounts.apikey')),
                ('workspace', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='limit', to='accounts.workspace')),
            ],
            options={
                'constraints': [
                    models.CheckConstraint(condition=models.Q(models.Q(('agent', None), ('api_key', None), ('workspace__isnull', False)), models.Q(('agent', None), ('api_key__isnull', False), ('workspace', None)), models.Q(('agent__isnull', False), ('api_key', None), ('workspace', None)), _connector='OR'), name='a_limit_is_of_one', violation_error_message='Choose one workspace, one API key or one agent.'),
                    models.CheckConstraint(condition=models.Q(('storage_bytes', None), ('workspace__isnull', False), _connector='OR'), name='storage_is_of_a_workspace', violation_error_message='Files belong to workspaces. Set their bytes for a workspace.'),
                ],
            },
        ),
    ]
