import apps.accounts.secrets.encryption
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('remote', '0001_initial'),
        ('remote', '0002_trusted_cards'),
        ('remote', '0003_peers'),
        ('remote', '0004_signed_requests'),
        ('remote', '0005_card_notes'),
        ('remote', '0006_cancels_are_work'),
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
                    name='Breaker',
                    fields=[
                        ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='breaker', serialize=False, to='agents.agent')),
                        ('failures', models.PositiveIntegerField(default=0, help_text='Calls in a row that failed.')),
                        ('failing_since', models.DateTimeField(null=True)),
                        ('opened_at', models.DateTimeField(null=True)),
                        ('openings', models.PositiveIntegerField(default=0, help_text='How often it was opened with no success in between.')),
                        ('retry_at', models.DateTimeField(help_text='When the next call may try. Whoever moves it on is that call.', null=True)),
                        ('trial_at', models.DateTimeField(help_text='When the newest trial began.', null=True)),
                        ('error', models.TextField(blank=True)),
                    ],
                ),
                migrations.CreateModel(
                    name='Checkup',
                    fields=[
                        ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='checkup', serialize=False, to='agents.agent')),
                        ('probe', models.TextField(blank=True, help_text='A message that the agent is sent now and then, to see that it answers; empty: none. The agent may charge for each.')),
                        ('next_check_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('next_probe_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('checked_at', models.DateTimeField(editable=False, null=True)),
                        ('newest', models.JSONField(default=list, editable=False, help_text='Milliseconds of the newest rounds, the newest last; null: it failed.')),
                        ('answers', models.BooleanField(default=True, editable=False, help_text='Did it answer at all, the last time that a check failed?')),
                        ('last_error', models.TextField(blank=True, editable=False)),
                        ('last_error_at', models.DateTimeField(editable=False, null=True)),
                    ],
                    options={
                        'verbose_name': 'checkup',
                        'indexes': [models.Index(fields=['next_check_at'], name='due_checkups')],
                    },
                ),
                migrations.CreateModel(
                    name='Peer',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(blank=True, max_length=120)),
                        ('did', models.CharField(blank=True, editable=False, max_length=1000, verbose_name='identity (DID)')),
                        ('base_url', models.CharField(blank=True, editable=False, max_length=2000, verbose_name='address')),
                        ('keys', models.JSONField(default=list, editable=False, help_text='Its pinned public keys (JWK), each with its kid.')),
                        ('state', models.CharField(choices=[('invited', 'Waits for the other side'), ('paired', 'Paired'), ('revoked', 'Revoked here'), ('ended', 'Revoked by the other side')], default='invited', editable=False, max_length=10)),
                        ('passes_names', models.BooleanField(default=False, help_text='Tell it the names of the people who use its agents.', verbose_name='tell it names')),
                        ('code', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='The secret of an unused code.')),
                        ('code_until', models.DateTimeField(editable=False, null=True, verbose_name='code expires')),
                        ('salt', models.CharField(blank=True, editable=False, help_text='For pseudonyms of our people.', max_length=64)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('paired_at', models.DateTimeField(editable=False, null=True, verbose_name='paired')),
                        ('ended_at', models.DateTimeField(editable=False, null=True, verbose_name='ended')),
                        ('seen_at', models.DateTimeField(editable=False, null=True, verbose_name='last seen')),
                        ('error', models.TextField(blank=True, editable=False, help_text='Why it could not be reached the last time.')),
                        ('made_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.workspace')),
                    ],
                    options={
                        'verbose_name': 'paired installation',
                        'constraints': [models.UniqueConstraint(condition=models.Q(('did', ''), _negated=True), fields=('did',), name='one_peer_of_each_identity')],
                    },
                ),
                migrations.CreateModel(
                    name='RemoteAgent',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('card_url', models.CharField(blank=True, help_text='Empty: the card was pasted.', max_length=2048, verbose_name='card URL')),
                        ('etag', models.CharField(blank=True, editable=False, max_length=200)),
                        ('last_modified', models.CharField(blank=True, editable=False, max_length=200)),
                        ('refreshed_at', models.DateTimeField(editable=False, null=True)),
                        ('refresh_at', models.DateTimeField(db_index=True, default=django.utils.timezone.now, editable=False)),
                        ('card_error', models.TextField(blank=True, editable=False, help_text='Why the card could not be loaded again.')),
                        ('origin', models.CharField(editable=False, help_text='Where it is called; credentials go nowhere else.', max_length=300)),
                        ('signature', models.CharField(choices=[('unsigned', 'unsigned'), ('verified', 'verified'), ('unverified', 'not trusted')], default='unsigned', editable=False, max_length=10)),
                        ('pinned_keys', models.JSONField(blank=True, default=list, editable=False, help_text='JSON Web Keys, as first seen.')),
                        ('history_messages', models.PositiveSmallIntegerField(default=10, help_text='How many messages of a session the agent is sent that it does not know.')),
                        ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='remote', to='agents.agent')),
                        ('declined', models.ForeignKey(editable=False, help_text='What an operator did not want; it is not proposed again.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agentversion')),
                        ('proposed', models.ForeignKey(editable=False, help_text="What waits for an operator's approval.", null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agentversion')),
                        ('registered_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('peer', models.ForeignKey(blank=True, editable=False, help_text='The paired installation whose agent it is.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='agents', to='remote.peer')),
                        ('signs_requests', models.BooleanField(default=False, help_text="By the installation's key (RFC 9421).", verbose_name='sign requests')),
                        ('card_notes', models.JSONField(db_default=models.Value([], models.JSONField()), default=list, editable=False, help_text='What was assumed or left out when the card was last read.')),
                        ('spoken_version', models.CharField(blank=True, db_default='', editable=False, help_text='Of A2A, if it answers in another than its card says.', max_length=10)),
                    ],
                    options={
                        'verbose_name': 'remote agent',
                        'ordering': ['agent__name'],
                    },
                ),
                migrations.CreateModel(
                    name='Check',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('at', models.DateTimeField()),
                        ('kind', models.CharField(choices=[('card', 'fetched its card'), ('address', 'called its address'), ('probe', 'sent it a message')], max_length=10)),
                        ('ok', models.BooleanField()),
                        ('milliseconds', models.PositiveIntegerField(help_text='Until it was answered, or given up.')),
                        ('error', models.TextField(blank=True)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checks', to='agents.agent')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['agent', '-at'], name='checks_of_an_agent')],
                    },
                ),
                migrations.CreateModel(
                    name='CheckedHour',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('hour', models.DateTimeField()),
                        ('rounds', models.PositiveIntegerField(default=0)),
                        ('failed', models.PositiveIntegerField(default=0)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='checked_hours', to='agents.agent')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('agent', 'hour'), name='an_hour_of_an_agent_is_one_row')],
                    },
                ),
                migrations.CreateModel(
                    name='OpenWork',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('task', models.UUIDField(help_text='The task here that it is for.')),
                        ('run', models.UUIDField()),
                        ('remote_task', models.TextField()),
                        ('is_unwanted', models.BooleanField(default=False, help_text='Given up, though our task may go on.', verbose_name='unwanted')),
                        ('tries', models.PositiveSmallIntegerField(default=0)),
                        ('next_try_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('began_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                        ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                        ('lease_until', models.DateTimeField(blank=True, editable=False, null=True)),
                    ],
                    options={
                        'verbose_name_plural': 'open work',
                        'indexes': [
                            models.Index(fields=['task'], name='open_work_of_a_task'),
                            models.Index(fields=['next_try_at'], name='open_work_by_time'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='RemoteCredential',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('scheme', models.CharField(help_text="Its name in the card's securitySchemes.", max_length=200)),
                        ('is_personal', models.BooleanField(default=False, verbose_name='each person brings their own')),
                        ('kind', models.CharField(blank=True, choices=[('api_key', 'API key'), ('bearer', 'access token'), ('basic', 'name and password'), ('client', 'OAuth2 client')], max_length=10)),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='JSON: the fields of the kind.')),
                        ('origin', models.CharField(blank=True, help_text='Where it is sent, and nowhere else.', max_length=300)),
                        ('issuer', models.CharField(blank=True, help_text="Where an OAuth2 client's secret is sent instead.", max_length=300)),
                        ('token', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='JSON: what the issuer gave last.')),
                        ('token_until', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, help_text='When the secret was given.')),
                        ('last_used_at', models.DateTimeField(blank=True, editable=False, null=True, verbose_name='last used')),
                        ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='remote_credentials', to='agents.agent')),
                        ('given_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('user', models.ForeignKey(blank=True, help_text='Empty: for everybody who may use the agent.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='remote_credentials', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name': 'credential of a remote agent',
                        'verbose_name_plural': 'credentials of remote agents',
                        'constraints': [
                            models.UniqueConstraint(condition=models.Q(('user', None)), fields=('agent', 'scheme'), name='one_remote_credential_of_everybody_per_scheme'),
                            models.UniqueConstraint(condition=models.Q(('user__isnull', False)), fields=('agent', 'user', 'scheme'), name='one_remote_credential_of_a_person_per_scheme'),
                            models.CheckConstraint(condition=models.Q(('user', None), ('is_personal', False), _connector='OR'), name='the_row_of_everybody_says_who_brings_it'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='SharedAgent',
                    fields=[
                        ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='shared_with_peers', serialize=False, to='agents.agent')),
                        ('shared_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                    ],
                    options={
                        'verbose_name': 'agent for paired installations',
                        'verbose_name_plural': 'agents for paired installations',
                    },
                ),
                migrations.CreateModel(
                    name='PeerUser',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('subject', models.CharField(max_length=64)),
                        ('peer', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='people', to='remote.peer')),
                        ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='peer_user', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('peer', 'subject'), name='one_user_of_each_peers_person')],
                    },
                ),
            ],
        ),
    ]
