import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('transfers', '0001_initial'),
        ('transfers', '0002_exports_are_work'),
        ('transfers', '0003_problem_is_empty_if_made'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='Export',
            fields=[
                ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('waiting', 'waits for a worker'), ('working', 'is being made'), ('done', 'can be downloaded'), ('failed', 'could not be made'), ('deleted', 'is kept for the count of a day')], default='waiting', max_length=10)),
                ('lease_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('sessions', models.PositiveIntegerField(default=0, help_text='How many it will have.')),
                ('sessions_done', models.PositiveIntegerField(default=0)),
                ('file', models.CharField(blank=True, help_text='The name in the file storage.', max_length=200)),
                ('size', models.PositiveBigIntegerField(default=0, help_text='Bytes of the file.')),
                ('problem', models.CharField(blank=True, help_text='Why it could not be made. Empty if it could.', max_length=500)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('expires_at', models.DateTimeField(blank=True, help_text='When it is deleted.', null=True)),
                ('owner', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='exports', to=settings.AUTH_USER_MODEL)),
                ('fence', models.PositiveSmallIntegerField(db_column='attempt', default=0, editable=False, help_text='Jobs that began it. The newest one writes it.', verbose_name='attempt')),
            ],
            options={
                'indexes': [models.Index(fields=['owner', '-created_at'], name='exports_of_a_person')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('state__in', ['waiting', 'working'])), fields=('owner',), name='one_unfinished_export_of_a_person')],
            },
        ),
    ]
