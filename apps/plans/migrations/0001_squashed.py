import django.db.models.deletion
import django.utils.timezone
import uuid
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('plans', '0001_initial'),
        ('plans', '0002_answers'),
        ('plans', '0003_finished_runs'),
    ]

    initial = True

    dependencies = [
        ('record', '0001_squashed'),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Plan',
                    fields=[
                    ],
                    options={
                        'proxy': True,
                    },
                    bases=('agents.agent',),
                ),
                migrations.CreateModel(
                    name='PlanRun',
                    fields=[
                        ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='plan_run', serialize=False, to='record.task')),
                        ('inputs', models.JSONField(default=dict)),
                        ('begun_at_step', models.CharField(blank=True, help_text='Where it goes on from the run that it continues.', max_length=63)),
                        ('paused_at', models.DateTimeField(blank=True, null=True)),
                        ('advanced_at', models.DateTimeField(blank=True, help_text='When its steps were last looked at.', null=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('traceparent', models.CharField(blank=True, help_text='Its span (W3C Trace Context).', max_length=55)),
                        ('told', models.CharField(blank=True, help_text='The progress that was told last.', max_length=300)),
                        ('told_at', models.DateTimeField(blank=True, null=True)),
                        ('finished_at', models.DateTimeField(blank=True, null=True)),
                        ('continues', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='continued_by', to='plans.planrun')),
                        ('version', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.agentversion')),
                    ],
                    options={
                        'verbose_name': 'run of a plan',
                        'verbose_name_plural': 'runs of plans',
                        'indexes': [
                            models.Index(condition=models.Q(('finished_at', None)), fields=['advanced_at'], name='plan_runs_that_go_on'),
                            models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='plan_runs_by_end'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='StartKey',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('sender', models.CharField(max_length=60)),
                        ('key', models.CharField(max_length=200)),
                        ('plan', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('sender', 'key'), name='a_key_is_for_one_plan')],
                    },
                ),
                migrations.CreateModel(
                    name='Step',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('key', models.CharField(max_length=63)),
                        ('item', models.IntegerField(default=-1, help_text='Which element of a fan-out, from 0; -1: it is of none.')),
                        ('value', models.JSONField(blank=True, help_text='That element.', null=True)),
                        ('round', models.PositiveSmallIntegerField(default=1, help_text='Of a repetition, from 1.')),
                        ('attempt', models.PositiveSmallIntegerField(default=0, help_text='How often it was begun.')),
                        ('state', models.CharField(choices=[('waiting', 'waits for others'), ('starting', 'is being given to its agent'), ('running', 'Running'), ('asking', 'asks for something'), ('ended', 'its task has ended, which is to be looked at'), ('done', 'Done'), ('failed', 'Failed'), ('skipped', 'Skipped'), ('canceled', 'Canceled')], default='waiting', max_length=10)),
                        ('phase', models.CharField(choices=[('work', 'its agent works'), ('before', 'a person is asked whether it may begin'), ('after', 'a person is asked whether they agree to what it delivered'), ('decision', 'a person is asked how to go on after it failed'), ('answering', 'an agent answers what its agent asks')], default='work', max_length=10)),
                        ('agent', models.CharField(blank=True, help_text='The slug of who does it, once that is known.', max_length=63)),
                        ('message', models.JSONField(blank=True, help_text='What its agent is sent (A2A); kept so that it is sent once.', null=True)),
                        ('answers', models.PositiveSmallIntegerField(default=0, help_text='How often an agent answered what it asked.')),
                        ('why', models.CharField(blank=True, help_text='Why it failed, or was skipped, as a sentence.', max_length=500)),
                        ('started_at', models.DateTimeField(blank=True, null=True)),
                        ('asked_at', models.DateTimeField(blank=True, help_text='Since when it asks.', null=True)),
                        ('due_at', models.DateTimeField(blank=True, help_text='Until when whoever begins it has it to themselves; then, when its attempt is cut off.', null=True)),
                        ('ended_at', models.DateTimeField(blank=True, null=True)),
                        ('consulted', models.ForeignKey(blank=True, help_text='In another phase than work: of whoever is asked about it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='plan_consultations', to='record.task')),
                        ('reused', models.ForeignKey(blank=True, help_text='The step of an earlier run whose result is kept.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='plans.step')),
                        ('run', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='plans.planrun')),
                        ('task', models.ForeignKey(blank=True, help_text='Of the newest attempt.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='plan_steps', to='record.task')),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['run', 'state', 'key', 'phase', 'agent'], name='steps_of_a_run'),
                            models.Index(condition=models.Q(('state', 'running')), fields=['due_at'], name='steps_with_a_deadline'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('run', 'key', 'item', 'round'), name='one_row_for_each_step')],
                    },
                ),
                migrations.CreateModel(
                    name='GivenAnswer',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('index', models.PositiveBigIntegerField(help_text="Of the answer in that task's log.")),
                        ('run', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='given_answers', to='plans.planrun')),
                        ('task', models.ForeignKey(help_text='The task that asked.', on_delete=django.db.models.deletion.CASCADE, related_name='+', to='record.task')),
                    ],
                ),
            ],
        ),
    ]
