import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('sharing', '0001_initial'),
        ('sharing', '0002_presence'),
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
                    name='Share',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('upto', models.PositiveBigIntegerField(help_text='Index of the last event that is shown.')),
                        ('title', models.CharField(blank=True, help_text='What the session was called then.', max_length=200)),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                        ('with_artifacts', models.BooleanField(default=False, help_text='Are files and artifacts shown?')),
                        ('with_branches', models.BooleanField(default=False, help_text='Are its forks shown?')),
                        ('branches', models.JSONField(default=dict, help_text='The forks that are shown: by their keys, up to which event.')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('expires_at', models.DateTimeField()),
                        ('revoked_at', models.DateTimeField(blank=True, null=True)),
                        ('context', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='shares', to='record.context')),
                    ],
                    options={
                        'ordering': ['-created_at', '-id'],
                    },
                ),
                migrations.CreateModel(
                    name='Presence',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('seen_at', models.DateTimeField()),
                        ('context', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='record.context')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name_plural': 'presences',
                        'constraints': [models.UniqueConstraint(fields=('context', 'user'), name='present_once')],
                    },
                ),
            ],
        ),
    ]
