import apps.accounts.audit_models
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


ENTRIES, HEAD = 'accounts_auditentry', 'accounts_audithead'
REFUSE = "SELECT RAISE(ABORT, 'The audit only grows: its entries are neither changed nor deleted.')"
GUARDS = {
    # REPLACE deletes a row without the triggers of DELETE.
    'sqlite': [
        f'CREATE TRIGGER audit_no_update BEFORE UPDATE ON {ENTRIES} BEGIN {REFUSE}; END',
        f'CREATE TRIGGER audit_no_delete BEFORE DELETE ON {ENTRIES} BEGIN {REFUSE}; END',
        f'CREATE TRIGGER audit_no_replace BEFORE INSERT ON {ENTRIES} '
        f'WHEN EXISTS (SELECT 1 FROM {ENTRIES} WHERE number = NEW.number) BEGIN {REFUSE}; END',
        f'CREATE TRIGGER audit_head_no_delete BEFORE DELETE ON {HEAD} BEGIN {REFUSE}; END',
        f'CREATE TRIGGER audit_head_no_return BEFORE UPDATE ON {HEAD} '
        f'WHEN NEW.number <> OLD.number + 1 BEGIN {REFUSE}; END',
        f'CREATE TRIGGER audit_head_no_replace BEFORE INSERT ON {HEAD} '
        f'WHEN EXISTS (SELECT 1 FROM {HEAD}) BEGIN {REFUSE}; END',
    ],
    'postgresql': [
        "CREATE FUNCTION audit_refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
        "'The audit only grows: its entries are neither changed nor deleted.' USING ERRCODE = 'restrict_violation'; "
        "END $$",
        f'CREATE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON {ENTRIES} '
        'FOR EACH ROW EXECUTE FUNCTION audit_refuse()',
        f'CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON {ENTRIES} EXECUTE FUNCTION audit_refuse()',
        f'CREATE TRIGGER audit_head_no_return BEFORE UPDATE ON {HEAD} '
        'FOR EACH ROW WHEN (NEW.number <> OLD.number + 1) EXECUTE FUNCTION audit_refuse()',
        f'CREATE TRIGGER audit_head_no_delete BEFORE DELETE ON {HEAD} FOR EACH ROW EXECUTE FUNCTION audit_refuse()',
        f'CREATE TRIGGER audit_head_no_truncate BEFORE TRUNCATE ON {HEAD} EXECUTE FUNCTION audit_refuse()',
    ],
}


def protect(apps, schema_editor):
    """The database itself refuses changes. A migration that rebuilds a table on SQLite has to do this again."""
    for statement in GUARDS[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def leave_unprotected(apps, schema_editor):
    vendor = schema_editor.connection.vendor
    for statement in GUARDS[vendor]:
        kind, name = statement.split()[1:3]
        if kind == 'TRIGGER' and vendor == 'sqlite':
            schema_editor.execute(f'DROP TRIGGER {name}')
    if vendor == 'postgresql':
        schema_editor.execute('DROP FUNCTION audit_refuse() CASCADE')


UNUSED = (('clock', 2), ('text_size', 5))
"""Columns of people, with their sizes, that installations keep until a later version drops them."""


class Migration(migrations.Migration):

    replaces = [
        ('accounts', '0001_initial'),
        ('accounts', '0002_preferences_and_audit_of_people'),
        ('accounts', '0003_audit_entries'),
        ('accounts', '0004_shared_cache'),
        ('accounts', '0005_people'),
        ('accounts', '0006_api_keys'),
        ('accounts', '0007_memberships'),
        ('accounts', '0008_invitations_and_access'),
        ('accounts', '0009_audit_actions'),
        ('accounts', '0010_workspaces'),
        ('accounts', '0011_request_signatures'),
        ('accounts', '0012_notified_people'),
        ('accounts', '0013_members_make_agents'),
        ('accounts', '0014_clock_and_text_size_unused'),
        ('accounts', '0015_when_a_key_was_used_last'),
    ]

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='User',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('password', models.CharField(max_length=128, verbose_name='password')),
                        ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                        ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                        ('email', models.EmailField(max_length=254, unique=True, verbose_name='e-mail')),
                        ('name', models.CharField(blank=True, max_length=120)),
                        ('is_active', models.BooleanField(default=True, verbose_name='active')),
                        ('is_staff', models.BooleanField(default=False, help_text='May open the admin pages.', verbose_name='operator')),
                        ('date_joined', models.DateTimeField(default=django.utils.timezone.now)),
                        ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                        ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
                        ('appearance_version', models.PositiveIntegerField(default=0, editable=False, help_text='Rises with each change of theme or time zone.')),
                        ('erased_at', models.DateTimeField(blank=True, editable=False, help_text='When they deleted the account.', null=True)),
                        ('notify_ended', models.BooleanField(default=True, verbose_name='notify when work has ended')),
                        ('notify_questions', models.BooleanField(default=True, verbose_name='notify when a question waits')),
                        ('theme', models.CharField(blank=True, choices=[(None, 'Same as the device'), ('light', 'Light'), ('dark', 'Dark')], max_length=5)),
                        ('time_zone', models.CharField(blank=True, help_text="Such as Europe/Oslo; empty: the browser's.", max_length=64)),
                        ('sign_outs', models.PositiveIntegerField(default=0, editable=False, help_text='How often all sessions were ended.')),
                        ('is_notified', models.BooleanField(db_default=False, default=False, editable=False, help_text='Whether a channel for notifications is on.')),
                    ],
                    options={
                        'abstract': False,
                    },
                ),
                migrations.CreateModel(
                    name='Workspace',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=120)),
                        ('retention_days', models.PositiveIntegerField(blank=True, help_text='Sessions in which nothing happened for so many days are deleted; empty: they are kept.', null=True, validators=[django.core.validators.MinValueValidator(1)])),
                        ('cold_after_days', models.PositiveIntegerField(blank=True, help_text='Days after which an archived session is moved into cold storage; empty: those of the installation.', null=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('personal_of', models.OneToOneField(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='personal_workspace', to=settings.AUTH_USER_MODEL)),
                        ('deleted_at', models.DateTimeField(blank=True, editable=False, help_text='When its owner deleted it.', null=True)),
                        ('is_house', models.BooleanField(default=False, editable=False, help_text='Of its agents; nobody is a member.', verbose_name="the installation's own")),
                        ('members_make_agents', models.BooleanField(db_default=False, default=False, help_text='Managers and owners always may.', verbose_name='members make agents')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(condition=models.Q(('is_house', True)), fields=('is_house',), name='one_house_workspace')],
                    },
                ),
                migrations.CreateModel(
                    name='ApiKey',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=120)),
                        ('prefix', models.CharField(editable=False, max_length=16, unique=True)),
                        ('digest', models.CharField(editable=False, max_length=64)),
                        ('scopes', models.JSONField(blank=True, default=list, help_text='What the key may do; empty means everything.')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('expires_at', models.DateTimeField(blank=True, null=True)),
                        ('last_used_at', models.DateTimeField(blank=True, editable=False, help_text='At most a minute old.', null=True)),
                        ('revoked_at', models.DateTimeField(blank=True, null=True)),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='api_keys', to='accounts.workspace')),
                        ('agents', models.JSONField(blank=True, default=list, help_text='Slugs of the only agents that the key reaches; empty means all.')),
                        ('last_used_from', models.CharField(blank=True, editable=False, help_text="The caller's IP address, or IPv6 network.", max_length=60)),
                        ('made_by', models.ForeignKey(blank=True, editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='made', to='accounts.apikey')),
                        ('previous_digest', models.CharField(blank=True, editable=False, max_length=64)),
                        ('previous_until', models.DateTimeField(blank=True, editable=False, help_text='Until when the secret before the last rotation works.', null=True)),
                        ('revoked_because', models.CharField(blank=True, choices=[('leaked', 'it leaked'), ('maker', 'the key that made it was revoked')], editable=False, max_length=10)),
                        ('public_key', models.TextField(blank=True, editable=False, help_text='PEM. If there is one, each request must be signed (RFC 9421).')),
                    ],
                    options={
                        'verbose_name': 'API key',
                    },
                ),
                migrations.CreateModel(
                    name='AuditEntry',
                    fields=[
                        ('number', models.PositiveBigIntegerField(help_text='Counts from 1 without gaps.', primary_key=True, serialize=False)),
                        ('at', models.DateTimeField(db_index=True, help_text="By the database's clock.", verbose_name='time')),
                        ('group', models.CharField(help_text='The first part of the action.', max_length=30)),
                        ('action', models.CharField(choices=apps.accounts.audit_models.audit_actions, max_length=60)),
                        ('actor_kind', models.CharField(choices=[('user', 'person'), ('key', 'API key'), ('command', 'command line'), ('system', 'Parley itself'), ('anonymous', 'unknown caller')], max_length=10)),
                        ('actor_key', models.CharField(blank=True, help_text="A person's id, or the name of a command or rule.", max_length=60)),
                        ('actor_name', models.CharField(blank=True, max_length=320, verbose_name='actor')),
                        ('object_type', models.CharField(blank=True, max_length=60)),
                        ('object_key', models.CharField(blank=True, max_length=120)),
                        ('object_label', models.CharField(blank=True, max_length=200, verbose_name='object')),
                        ('workspace', models.PositiveBigIntegerField(blank=True, help_text="The id of the object's workspace.", null=True)),
                        ('address', models.CharField(blank=True, help_text="The caller's IP address.", max_length=60)),
                        ('user_agent', models.CharField(blank=True, max_length=200)),
                        ('request_id', models.CharField(blank=True, max_length=100)),
                        ('details', models.JSONField(blank=True, default=dict)),
                        ('previous', models.CharField(blank=True, help_text='The hash of the entry before; empty for the first.', max_length=64)),
                        ('hash', models.CharField(help_text='SHA-256 of the other fields as canonical JSON (RFC 8785).', max_length=64)),
                    ],
                    options={
                        'verbose_name': 'audit entry',
                        'verbose_name_plural': 'audit entries',
                        'permissions': [('export_auditentry', 'Can export audit entries')],
                        'default_permissions': ('view',),
                        'indexes': [
                            models.Index(fields=['group', 'number'], name='audit_by_group'),
                            models.Index(fields=['action', 'number'], name='audit_by_action'),
                            models.Index(fields=['actor_kind', 'number'], name='audit_by_actor_kind'),
                            models.Index(fields=['actor_key', 'number'], name='audit_by_actor'),
                            models.Index(fields=['actor_name', 'number'], name='audit_by_actor_name'),
                            models.Index(fields=['object_key', 'number'], name='audit_by_object'),
                            models.Index(fields=['object_label', 'number'], name='audit_by_object_label'),
                            models.Index(fields=['address', 'number'], name='audit_by_address'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='AuditHead',
                    fields=[
                        ('id', models.PositiveSmallIntegerField(default=1, primary_key=True, serialize=False)),
                        ('number', models.PositiveBigIntegerField()),
                        ('hash', models.CharField(max_length=64)),
                    ],
                    options={
                        'default_permissions': (),
                    },
                ),
                migrations.CreateModel(
                    name='CacheEntry',
                    fields=[
                        ('cache_key', models.CharField(max_length=255, primary_key=True, serialize=False)),
                        ('value', models.TextField()),
                        ('expires', models.DateTimeField(db_index=True)),
                    ],
                    options={
                        'db_table': 'cache',
                    },
                ),
                migrations.CreateModel(
                    name='Membership',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('role', models.CharField(choices=[('viewer', 'Viewer'), ('member', 'Member'), ('manager', 'Manager'), ('owner', 'Owner')], default='member', max_length=10)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False, verbose_name='since')),
                        ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='memberships', to='accounts.workspace')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('user', 'workspace'), name='one_membership')],
                    },
                ),
                migrations.CreateModel(
                    name='AccessChange',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('at', models.DateTimeField(db_index=True)),
                        ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                ),
                migrations.CreateModel(
                    name='Invitation',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('email', models.EmailField(blank=True, help_text='Only this address; empty: whoever has the link.', max_length=254, verbose_name='e-mail')),
                        ('role', models.CharField(blank=True, help_text='In the workspace.', max_length=20)),
                        ('digest', models.CharField(editable=False, max_length=64, unique=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('expires_at', models.DateTimeField()),
                        ('used_at', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
                        ('inviter', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to=settings.AUTH_USER_MODEL)),
                        ('used_by', models.ForeignKey(editable=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='invitations', to='accounts.workspace')),
                    ],
                ),
                migrations.CreateModel(
                    name='UsedNonce',
                    fields=[
                        ('digest', models.CharField(help_text='SHA-256 of the key and the nonce.', max_length=64, primary_key=True, serialize=False)),
                        ('expires_at', models.DateTimeField(db_index=True)),
                    ],
                    options={
                        'db_table': 'used_nonces',
                    },
                ),
            ],
        ),
        migrations.AddField(
            model_name='user',
            name='current_workspace',
            field=models.ForeignKey(blank=True, editable=False, help_text='The one they chose last; empty: their personal one.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.workspace'),
        ),
        migrations.RunSQL(
            [f"""ALTER TABLE accounts_user ADD COLUMN "{name}" varchar({size}) DEFAULT '' NOT NULL""" for name, size in UNUSED],
            [f'ALTER TABLE accounts_user DROP COLUMN "{name}"' for name, _ in UNUSED],
        ),
        migrations.RunPython(protect, leave_unprotected),
    ]
