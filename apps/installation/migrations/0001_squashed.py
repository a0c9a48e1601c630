import apps.accounts.secrets.encryption
import apps.installation.models
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('installation', '0001_initial'),
        ('installation', '0002_activity'),
        ('installation', '0003_tool_servers'),
        ('installation', '0004_names_sessions'),
    ]

    initial = True

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='DismissedSteps',
                    fields=[
                        ('person', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='+', serialize=False, to=settings.AUTH_USER_MODEL)),
                        ('at', models.DateTimeField(default=django.utils.timezone.now)),
                    ],
                    options={
                        'verbose_name_plural': 'dismissed steps',
                    },
                ),
                migrations.CreateModel(
                    name='NetworkAllowance',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('entry', models.CharField(help_text='Such as models.internal, 10.1.2.3:8080 (this port only) or 10.0.0.0/8.', max_length=260, unique=True, validators=[apps.installation.models.check_entry], verbose_name='host or network')),
                        ('reason', models.CharField(help_text='What is called there, for other operators.', max_length=200)),
                        ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('added_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name': 'private address',
                        'verbose_name_plural': 'private addresses',
                        'ordering': ['entry'],
                    },
                ),
                migrations.CreateModel(
                    name='ModelConnection',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=80, unique=True)),
                        ('slug', models.CharField(help_text='Agents name a model of this connection as MODEL@SHORT-NAME.', max_length=40, unique=True, validators=[django.core.validators.RegexValidator('^[a-z][a-z0-9-]*\\Z', 'Use lower-case letters, digits and hyphens, with a letter first.')], verbose_name='short name')),
                        ('provider', models.CharField(choices=[('openai', 'OpenAI'), ('anthropic', 'Anthropic'), ('google', 'Google'), ('ollama', 'Ollama'), ('vllm', 'vLLM'), ('other', 'Another OpenAI-compatible endpoint')], default='other', max_length=12)),
                        ('base_url', models.CharField(help_text='The address of the API without /chat/completions. It usually ends with /v1.', max_length=500, validators=[apps.installation.models.check_base_url], verbose_name='base URL')),
                        ('api_key', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, validators=[apps.installation.models.check_key], verbose_name='API key')),
                        ('model', models.CharField(help_text='For agents that name no model.', max_length=200, verbose_name='default model')),
                        ('offers', models.JSONField(blank=True, default=list, verbose_name='models and prices')),
                        ('found', models.JSONField(blank=True, default=list, editable=False)),
                        ('is_default', models.BooleanField(default=False, help_text='Agents that name no connection use this one.', verbose_name='default connection')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('checked_at', models.DateTimeField(editable=False, null=True, verbose_name='tested')),
                        ('problem', models.TextField(blank=True, editable=False, help_text='Why the last test failed, for operators.')),
                        ('added_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('names_sessions', models.BooleanField(db_default=True, default=True, help_text="Of the default connection: its default model reads a session's first two messages and names it.", verbose_name='name sessions')),
                    ],
                    options={
                        'verbose_name': 'model connection',
                        'ordering': ['-is_default', 'name'],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('is_default',), name='one_default_connection')],
                    },
                ),
                migrations.CreateModel(
                    name='Operation',
                    fields=[
                        ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                        ('activity', models.CharField(choices=[('active', 'Active'), ('paused', 'Paused'), ('draining', 'Draining')], default='active', max_length=10)),
                        ('changed_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('changed_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'verbose_name_plural': 'operation',
                        'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='one_row_about_all_agents')],
                    },
                ),
                migrations.CreateModel(
                    name='SharedToolServer',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=80, unique=True)),
                        ('description', models.CharField(blank=True, help_text='What its tools do, for people who choose it.', max_length=200)),
                        ('url', models.CharField(max_length=2000, unique=True, validators=[apps.installation.models.check_base_url], verbose_name='URL')),
                        ('header', models.CharField(default='Authorization', max_length=100, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9-]+\\Z', 'Write the name of a header, such as Authorization.')])),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text="The header's value, for the agents of everybody.")),
                    ],
                    options={
                        'verbose_name': 'tool server',
                        'ordering': ['name'],
                    },
                ),
            ],
        ),
    ]
