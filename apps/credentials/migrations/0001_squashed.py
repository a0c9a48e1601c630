import apps.accounts.secrets.encryption
import apps.credentials.models
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('credentials', '0001_initial'),
        ('credentials', '0002_oauth_services'),
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
                    name='OAuthService',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(help_text='What agents ask for: AuthRequired(service=…).', max_length=100)),
                        ('issuer', models.CharField(blank=True, help_text="Parley finds the addresses below in the issuer's metadata. Without one, fill them in.", max_length=2000, validators=[apps.credentials.models.check_url])),
                        ('authorization_url', models.CharField(blank=True, max_length=2000, validators=[apps.credentials.models.check_url], verbose_name='authorization URL')),
                        ('token_url', models.CharField(blank=True, max_length=2000, validators=[apps.credentials.models.check_url], verbose_name='token URL')),
                        ('revocation_url', models.CharField(blank=True, help_text='Called when people disconnect.', max_length=2000, validators=[apps.credentials.models.check_url], verbose_name='revocation URL')),
                        ('client_id', models.CharField(max_length=500, verbose_name='client ID')),
                        ('client_secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='Empty for a public client.')),
                        ('secret_in_body', models.BooleanField(default=False, help_text='Send the client secret in the form instead of by HTTP Basic.')),
                        ('scopes', models.CharField(blank=True, help_text='With spaces between.', max_length=2000)),
                        ('hosts', models.CharField(blank=True, help_text='Where agents may send the token, with spaces between, such as api.example.org.', max_length=1000, validators=[django.core.validators.RegexValidator('^[a-z0-9._-]+(:\\d+)?( [a-z0-9._-]+(:\\d+)?)*\\Z', 'Write host names, such as api.example.org.')])),
                        ('parameters', models.JSONField(blank=True, default=list, help_text='More parameters of the authorization, as rows of `name` and `value`.')),
                        ('metadata', models.JSONField(default=dict, editable=False, help_text='What the issuer said last (RFC 8414).')),
                    ],
                    options={
                        'verbose_name': 'OAuth service',
                        'ordering': ['name'],
                        'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='one_oauth_service_of_a_name', violation_error_message='There is a service of this name. Change that one, or choose another name.')],
                    },
                ),
                migrations.CreateModel(
                    name='Credential',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('service', models.CharField(max_length=100)),
                        ('auth_type', models.CharField(choices=[('api_key', 'API key'), ('bearer', 'access token'), ('basic', 'name and password')], max_length=10, verbose_name='kind')),
                        ('username', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False)),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='Empty once it was revoked.')),
                        ('given_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('last_used_at', models.DateTimeField(blank=True, null=True, verbose_name='last used')),
                        ('revoked_at', models.DateTimeField(blank=True, null=True, verbose_name='revoked')),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='credentials', to='agents.agent')),
                        ('given_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('task', models.ForeignKey(blank=True, help_text="Of a task that is nobody's: what it was given is its own, and goes with its end.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='credentials', to='record.task')),
                        ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='credentials', to=settings.AUTH_USER_MODEL)),
                        ('expires_at', models.DateTimeField(blank=True, help_text='When the access token is renewed, shortly before its end.', null=True, verbose_name='expires')),
                        ('lapsed_at', models.DateTimeField(blank=True, help_text='When the service refused to renew it.', null=True, verbose_name='needs connecting since')),
                        ('refresh_token', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, db_default='', default='', editable=False)),
                        ('renewing_until', models.DateTimeField(editable=False, help_text='Until then, one run alone may use the refresh token.', null=True)),
                        ('oauth_service', models.ForeignKey(blank=True, db_index=False, help_text='Where the secret is an access token that its owner got by connecting.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='credentials', to='credentials.oauthservice')),
                    ],
                    options={
                        'constraints': [
                            models.CheckConstraint(condition=models.Q(('user', None), ('task', None), _connector='OR'), name='a_credential_is_a_persons_or_a_tasks'),
                            models.UniqueConstraint(condition=models.Q(('revoked_at', None)), fields=('agent', 'user', 'service'), name='one_credential_of_a_person_per_service'),
                            models.UniqueConstraint(condition=models.Q(('revoked_at', None)), fields=('task', 'service'), name='one_credential_of_a_task_per_service'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='CredentialRequest',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('service', models.CharField(max_length=100)),
                        ('auth_type', models.CharField(choices=[('api_key', 'API key'), ('bearer', 'access token'), ('basic', 'name and password')], max_length=10, verbose_name='kind')),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                        ('asked_at', models.DateTimeField(help_text="The time of the task's status that it belongs to.", verbose_name='asked')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('expires_at', models.DateTimeField(verbose_name='expires')),
                        ('answer', models.CharField(blank=True, choices=[('given', 'Given'), ('declined', 'Declined')], max_length=10)),
                        ('answered_at', models.DateTimeField(blank=True, null=True, verbose_name='answered')),
                        ('answered_by', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='credential_requests', to='record.task')),
                    ],
                    options={
                        'indexes': [models.Index(fields=['task', 'created_at'], name='requests_of_a_task')],
                    },
                ),
            ],
        ),
    ]
