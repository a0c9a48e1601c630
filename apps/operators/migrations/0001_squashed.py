import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('operators', '0001_bulk_actions_and_filters'),
        ('operators', '0002_state_before_an_act'),
        ('operators', '0003_bulk_actions_are_work'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='BulkAction',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('action', models.CharField(help_text='The key of the action (see `apps.operators.bulk`).', max_length=60)),
                        ('label', models.CharField(max_length=80, verbose_name='action')),
                        ('chosen', models.CharField(blank=True, help_text='The filter of the list, as its query string.', max_length=500)),
                        ('total', models.PositiveIntegerField()),
                        ('state', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('stopped', 'Stopped')], default='running', max_length=10)),
                        ('why', models.CharField(blank=True, help_text='Why it was stopped.', max_length=300)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('finished_at', models.DateTimeField(blank=True, null=True)),
                        ('lease_until', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                        ('operator', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name': 'bulk action',
                        'indexes': [
                            models.Index(condition=models.Q(('state', 'running')), fields=['lease_until'], name='running_bulk_actions'),
                            models.Index(fields=['-created_at'], name='bulk_actions_by_age'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='BulkRow',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('number', models.PositiveIntegerField(help_text='Counts from 1.')),
                        ('key', models.CharField(help_text='The primary key of the row.', max_length=64)),
                        ('outcome', models.CharField(choices=[('waiting', 'Waiting'), ('started', 'Started'), ('done', 'Done'), ('skipped', 'Skipped'), ('failed', 'Failed')], default='waiting', max_length=10)),
                        ('note', models.CharField(blank=True, max_length=300)),
                        ('bulk', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='operators.bulkaction')),
                        ('before', models.CharField(blank=True, help_text="The action's mark of the row before the first try.", max_length=64)),
                    ],
                    options={
                        'ordering': ['number'],
                        'indexes': [models.Index(fields=['bulk', 'outcome', 'number'], name='rows_of_a_bulk_action')],
                        'constraints': [models.UniqueConstraint(fields=('bulk', 'number'), name='rows_of_a_bulk_action_in_order')],
                    },
                ),
                migrations.CreateModel(
                    name='SavedFilter',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('model', models.CharField(help_text='The list, such as `record.task`.', max_length=80)),
                        ('name', models.CharField(max_length=60)),
                        ('query', models.CharField(help_text="The list's query string.", max_length=1000)),
                        ('operator', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'ordering': ['name'],
                        'permissions': [('export_rows', 'Can export lists')],
                        'constraints': [models.UniqueConstraint(fields=('operator', 'model', 'name'), name='one_filter_of_a_name_in_a_list')],
                    },
                ),
            ],
        ),
    ]
