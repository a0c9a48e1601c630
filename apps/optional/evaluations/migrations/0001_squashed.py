import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('evaluations', '0001_initial'),
        ('evaluations', '0002_evaluations_are_work'),
    ]

    initial = True

    dependencies = [
        ('agents', '0001_squashed'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Evaluation',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('finished_at', models.DateTimeField(blank=True, null=True)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='evaluations', to='agents.agent')),
                        ('started_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('version', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agentversion')),
                        ('lease_until', models.DateTimeField(blank=True, db_column='taken_until', editable=False, null=True)),
                        ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                    ],
                    options={
                        'ordering': ['-id'],
                        'indexes': [models.Index(condition=models.Q(('finished_at__isnull', True)), fields=['id'], name='evaluations_under_way')],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('finished_at__isnull', True)), fields=('agent', 'version'), name='one_evaluation_of_a_version_at_a_time')],
                    },
                ),
                migrations.CreateModel(
                    name='Example',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('text', models.TextField(verbose_name='message')),
                        ('contains', models.TextField(blank=True, help_text='Each line must occur in the answer, in any case.')),
                        ('equals', models.JSONField(blank=True, help_text='The answer must be this JSON.', null=True)),
                        ('schema', models.JSONField(blank=True, help_text='The answer must be JSON that fits this JSON Schema.', null=True)),
                        ('judged_by', models.TextField(blank=True, help_text='What the default language model must find true of the answer.', verbose_name='judged by')),
                        ('is_active', models.BooleanField(default=True, verbose_name='active')),
                        ('source', models.UUIDField(blank=True, editable=False, help_text='The task that was rated.', null=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='examples', to='agents.agent')),
                        ('created_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'ordering': ['agent', 'id'],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('source__isnull', False)), fields=('agent', 'source'), name='one_example_of_a_task')],
                    },
                ),
                migrations.CreateModel(
                    name='Result',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('state', models.CharField(choices=[('waiting', 'waiting'), ('passed', 'passed'), ('failed', 'failed')], default='waiting', max_length=8)),
                        ('task', models.UUIDField(help_text='Its task. The session may be gone.', null=True)),
                        ('answer', models.TextField(blank=True)),
                        ('problems', models.JSONField(default=list, help_text='Why it failed, a sentence each.')),
                        ('seconds', models.FloatField(null=True)),
                        ('cost', models.FloatField(null=True)),
                        ('evaluation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='results', to='evaluations.evaluation')),
                        ('example', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='results', to='evaluations.example')),
                    ],
                    options={
                        'ordering': ['evaluation', 'example'],
                        'constraints': [models.UniqueConstraint(fields=('evaluation', 'example'), name='one_result_of_an_example')],
                    },
                ),
            ],
        ),
    ]
