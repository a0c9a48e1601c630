import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    replaces = [
        ('signing', '0001_foreign_signatures'),
        ('signing', '0002_signatures_are_work'),
    ]

    initial = True

    dependencies = [
        ('agents', '0001_squashed'),
    ]

    operations = [
        migrations.CreateModel(
            name='ForeignSignature',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('task', models.UUIDField(help_text='The task here whose artifact it is.')),
                ('artifact_id', models.CharField(help_text='As it is in the record.', max_length=200)),
                ('claims', models.JSONField(help_text='What came with the artifact: agent, created, inputSnapshot, signature.')),
                ('statement', models.TextField(blank=True, help_text='What must be signed (RFC 8785); erased once it is verified.')),
                ('verdict', models.CharField(choices=[('good', 'good'), ('broken', 'broken'), ('unknown key', 'unknown key'), ('revoked', 'revoked'), ('missing', 'missing'), ('pending', 'pending')], max_length=12)),
                ('reason', models.TextField(blank=True, help_text='Why it is not good.')),
                ('key', models.JSONField(default=dict, help_text='The public key that made it, as a JSON Web Key.')),
                ('vouched_by', models.CharField(blank=True, choices=[('did', "the agent's identity (DID document)"), ('card', "the key that signed the agent's card"), ('key_set', "the key set of the agent's server")], max_length=10)),
                ('tries', models.PositiveSmallIntegerField(default=0)),
                ('next_try_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('checked_at', models.DateTimeField(null=True)),
                ('agent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agent')),
                ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                ('lease_until', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('verdict', 'pending')), fields=['next_try_at'], name='unverified_signatures')],
                'constraints': [models.UniqueConstraint(fields=('task', 'artifact_id'), name='one_foreign_signature_each')],
            },
        ),
    ]
