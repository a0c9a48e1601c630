import apps.accounts.secrets.encryption
import apps.agents.models
import apps.agents.validators
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('agents', '0001_initial'),
        ('agents', '0002_agent_lists'),
        ('agents', '0003_activity'),
        ('agents', '0004_tool_policies'),
        ('agents', '0005_endorsement'),
        ('agents', '0006_card_for_old_clients'),
        ('agents', '0007_mcp_tools'),
        ('agents', '0008_ask_each'),
        ('agents', '0009_makers_and_pictures'),
        ('agents', '0010_time_limit_may_be_empty'),
        ('agents', '0011_alone_until'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Agent',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('slug', models.CharField(max_length=63, unique=True, validators=[django.core.validators.RegexValidator('^[a-z0-9][a-z0-9-]*\\Z', 'Use lower-case letters, digits and hyphens.'), apps.agents.models.refuse_reserved_slug])),
                        ('name', models.CharField(max_length=120)),
                        ('description', models.TextField()),
                        ('version', models.CharField(default='1.0.0', max_length=40)),
                        ('kind', models.CharField(choices=[('hosted', 'Hosted'), ('remote', 'Remote'), ('model', 'Without code'), ('plan', 'Plan')], default='hosted', max_length=10)),
                        ('handler', models.CharField(blank=True, help_text='The Python class of a hosted agent: package.module:Name.', max_length=250)),
                        ('skills', models.JSONField(blank=True, default=list, help_text='A2A skills: id, name, description, tags.')),
                        ('input_modes', models.JSONField(default=apps.agents.models.text_modes, help_text='Media types that the agent accepts.')),
                        ('output_modes', models.JSONField(default=apps.agents.models.text_modes, help_text='Media types that the agent produces.')),
                        ('capabilities', models.JSONField(blank=True, default=dict, help_text='A2A capabilities: {"streaming": true}.', validators=[apps.agents.validators.check_capabilities])),
                        ('extended_card', models.JSONField(blank=True, default=dict, help_text='Details for callers with an API key, as JSON: skills, description, documentationUrl.', validators=[apps.agents.validators.check_extended_card])),
                        ('access', models.CharField(choices=[('public', 'everybody, without signing in'), ('authenticated', 'everybody who is signed in or has a key'), ('groups', 'members of chosen groups'), ('workspace', 'members of its workspace'), ('owner', 'only who made it')], default='authenticated', max_length=20)),
                        ('on_busy', models.CharField(choices=[('enqueue', 'run the message after the current turn'), ('reject', 'refuse the message'), ('interrupt', 'stop the current turn and run the message')], default='enqueue', max_length=10)),
                        ('time_limit', models.FloatField(blank=True, default=600.0, help_text='The longest time for one turn, in seconds. Empty: no limit, as for new remote agents.', null=True, validators=[django.core.validators.MinValueValidator(0.1)])),
                        ('attempts', models.PositiveSmallIntegerField(default=3, help_text='How many times a turn may start after crashes.', validators=[django.core.validators.MinValueValidator(1)])),
                        ('retry_safe', models.BooleanField(default=False, help_text='Run a turn again after a crash.')),
                        ('keep_thoughts', models.BooleanField(default=False, help_text="Record the agent's thoughts.")),
                        ('sign_artifacts', models.BooleanField(default=False, help_text='Sign the files that the agent produces.')),
                        ('cost', models.FloatField(default=0.0, help_text="The cost of a task, in this installation's currency. 0 if it is free.", validators=[django.core.validators.MinValueValidator(0.0)])),
                        ('tools', models.JSONField(blank=True, default=list, help_text='Names of the tools that the agent uses.', validators=[apps.agents.validators.check_names])),
                        ('fallbacks', models.JSONField(blank=True, default=list, help_text='Slugs of agents that take over when this one cannot be reached, in order.')),
                        ('retention_days', models.PositiveIntegerField(blank=True, help_text="Delete sessions with this agent after so many days without activity. Leave it empty to keep them. A shorter time of the session's workspace wins.", null=True, validators=[django.core.validators.MinValueValidator(1)])),
                        ('health', models.CharField(choices=[('ok', 'Healthy'), ('degraded', 'Degraded'), ('unavailable', 'Unavailable')], default='ok', editable=False, max_length=12)),
                        ('ailment', models.TextField(blank=True, editable=False, help_text='Why it is not healthy, for operators.')),
                        ('is_enabled', models.BooleanField(default=True, verbose_name='enabled')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('updated_at', models.DateTimeField(auto_now=True)),
                        ('groups', models.ManyToManyField(blank=True, related_name='agents', to='auth.group')),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='agents', to='accounts.workspace')),
                        ('category', models.CharField(blank=True, help_text='The heading in lists, such as Writing.', max_length=40)),
                        ('listed', models.BooleanField(default=True, help_text='Show it where people choose an agent. If off, only other agents and plans use it.')),
                        ('pinned', models.PositiveSmallIntegerField(blank=True, help_text='Agents with a position come first, 1 before 2. Leave it empty to sort the agent by its use.', null=True, validators=[django.core.validators.MinValueValidator(1)], verbose_name='position')),
                        ('activity', models.CharField(choices=[('active', 'Active'), ('paused', 'Paused'), ('draining', 'Draining')], default='active', editable=False, help_text='Paused: messages wait. Draining: new tasks are refused.', max_length=10)),
                        ('card_for_old_clients', models.BooleanField(default=False, help_text='Clients of A2A 0.3 can read the card at agent-card.json, too.')),
                        ('mcp_tools', models.CharField(choices=[('off', 'no tool'), ('agent', 'one tool'), ('skills', 'a tool for each skill')], default='off', help_text='What MCP clients of those who may use it are offered at /mcp.', max_length=10, verbose_name='MCP tools')),
                        ('owner', models.ForeignKey(db_index=False, editable=False, help_text='Who made it in the app.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('picture', models.CharField(db_default='', default='', editable=False, help_text="The start of its picture's SHA-256.", max_length=16)),
                        ('alone_until', models.DateTimeField(editable=False, help_text='Until then each turn has a process of its own, because one ended with a turn of this agent.', null=True)),
                    ],
                    options={
                        'ordering': ['name'],
                        'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('kind', 'hosted'), _negated=True), models.Q(('handler', ''), _negated=True), _connector='OR'), name='hosted_agent_has_a_handler', violation_error_message='A hosted agent needs a handler (dotted.path:Name).')],
                    },
                ),
                migrations.CreateModel(
                    name='AgentStats',
                    fields=[
                        ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='stats', serialize=False, to='agents.agent')),
                        ('runs', models.PositiveIntegerField(default=0, help_text='Recent runs.')),
                        ('succeeded', models.PositiveIntegerField(default=0, help_text='Recent runs that did not fail.')),
                        ('newest_runs', models.PositiveSmallIntegerField(default=0, help_text='The newest of them, which decide the health.')),
                        ('newest_succeeded', models.PositiveSmallIntegerField(default=0)),
                        ('took_p50', models.FloatField(help_text='Seconds from start to end of recent turns that succeeded.', null=True)),
                        ('took_p95', models.FloatField(null=True)),
                        ('waited_p50', models.FloatField(help_text='Seconds from the message to the start of the same turns.', null=True)),
                        ('waited_p95', models.FloatField(null=True)),
                        ('input_tokens', models.PositiveBigIntegerField(default=0, help_text='Of language models, in recent runs.')),
                        ('output_tokens', models.PositiveBigIntegerField(default=0)),
                        ('queued', models.PositiveIntegerField(default=0, help_text='Turns that were waiting.')),
                        ('running', models.PositiveIntegerField(default=0)),
                        ('tasks', models.PositiveBigIntegerField(default=0, help_text='Answers that were a task.')),
                        ('messages', models.PositiveBigIntegerField(default=0, help_text='Answers that were a message.')),
                        ('tasks_of_a_day', models.PositiveIntegerField(default=0, help_text='In the last 24 hours.')),
                        ('messages_of_a_day', models.PositiveIntegerField(default=0)),
                        ('counted_to', models.DateTimeField(null=True)),
                        ('tasks_counted', models.PositiveBigIntegerField(default=0)),
                        ('messages_counted', models.PositiveBigIntegerField(default=0)),
                        ('ratings', models.PositiveIntegerField(default=0, help_text='Rated tasks.')),
                        ('mean_rating', models.FloatField(help_text='From 1 to 5. The newest rating of each task counts.', null=True)),
                        ('updated_at', models.DateTimeField()),
                    ],
                    options={
                        'verbose_name_plural': 'agent stats',
                    },
                ),
                migrations.CreateModel(
                    name='AgentVersion',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('number', models.PositiveIntegerField(help_text='Counts from 1, for each agent.')),
                        ('content', models.JSONField(help_text='See `apps.agents.versions`.')),
                        ('sha256', models.CharField(help_text="Of the content's canonical form (RFC 8785).", max_length=64, verbose_name='SHA-256')),
                        ('note', models.CharField(blank=True, max_length=200)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='agents.agent')),
                        ('author', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name': 'version',
                        'ordering': ['agent', '-number'],
                        'constraints': [models.UniqueConstraint(fields=('agent', 'number'), name='one_version_of_each_number')],
                    },
                ),
                migrations.CreateModel(
                    name='SigningKey',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kid', models.CharField(editable=False, help_text='SHA-256 thumbprint of the public key.', max_length=43, unique=True, verbose_name='key id')),
                        ('algorithm', models.CharField(choices=[('EdDSA', 'Ed25519 (EdDSA)'), ('ES256', 'ECDSA on P-256 (ES256)')], default='EdDSA', editable=False, max_length=10)),
                        ('public', models.JSONField(editable=False, help_text='As a JSON Web Key.', verbose_name='public key')),
                        ('private', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='The JSON Web Key; erased when the key stops signing.')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('retired_at', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('agent', models.ForeignKey(blank=True, editable=False, help_text="Empty for the platform's own key.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='signing_keys', to='agents.agent')),
                        ('endorsement', models.TextField(blank=True, editable=False, help_text='The signature of the key before on this one, for those who trust that.')),
                    ],
                    options={
                        'ordering': ['-created_at', '-pk'],
                        'constraints': [models.UniqueConstraint(django.db.models.functions.comparison.Coalesce('agent', 0), condition=models.Q(('retired_at', None), ('revoked_at', None)), name='one_key_signs_at_a_time')],
                    },
                ),
                migrations.CreateModel(
                    name='ToolSecret',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('url', models.CharField(max_length=2000)),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(editable=False)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tool_secrets', to='agents.agent')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('agent', 'url'), name='one_secret_of_an_agent_per_url')],
                    },
                ),
                migrations.CreateModel(
                    name='ToolPolicy',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('tool', models.CharField(help_text='A name, or a pattern with * and ?. Tools are named function:NAME, agent:ask_SLUG and mcp:NAME; without the kind, all kinds are meant. The most exact one counts.', max_length=100, validators=[django.core.validators.RegexValidator('^[\\w.:*?-]+\\Z', "Write a tool's name, or a pattern such as mcp:* or send_*.")])),
                        ('policy', models.CharField(choices=[('run', 'run it'), ('ask', 'ask a person'), ('ask_each', 'ask a person each time'), ('ask_two', 'ask two people'), ('never', 'never run it')], default='ask', max_length=10)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tool_policies', to='agents.agent')),
                    ],
                    options={
                        'verbose_name_plural': 'tool policies',
                        'constraints': [models.UniqueConstraint(fields=('agent', 'tool'), name='a_tool_has_one_policy')],
                    },
                ),
                migrations.CreateModel(
                    name='AgentPicture',
                    fields=[
                        ('agent', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='drawn', serialize=False, to='agents.agent')),
                        ('content', models.BinaryField()),
                    ],
                ),
            ],
        ),
        migrations.AddField(
            model_name='agent',
            name='current_version',
            field=models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agentversion'),
        ),
    ]
