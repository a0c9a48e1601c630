"""The audit lets an erasure take a person out of entries, and grows by several entries in one statement.

An update may only name another actor or object, empty where the caller was, and note the erasure in `erasures`.
`audit.Erasures` compares what is left with the entry that records the erasure.
"""

from django.db import migrations, models

ENTRIES, HEAD = 'accounts_auditentry', 'accounts_audithead'
REFUSE = {
    'sqlite': "BEGIN SELECT RAISE(ABORT, 'The audit only grows: its entries are neither changed nor deleted.'); END",
    'postgresql': 'EXECUTE FUNCTION audit_refuse()',
}
STAYS = ('number', 'at', '"group"', 'action', 'actor_kind', 'actor_key', 'object_type', 'object_key', 'workspace', 'previous', 'hash')
GOES = ('address', 'user_agent', 'request_id', 'salt')


def is_no_erasure(other):
    """`other`: the operator that tells two values apart, null too."""
    changed = [f'NEW.{name} {other} OLD.{name}' for name in STAYS]
    filled = [f"(NEW.{name} <> '' AND NEW.{name} <> OLD.{name})" for name in GOES]
    return f"NOT (NEW.erasures {other} OLD.erasures) OR NEW.erasures IS NULL OR NEW.salt <> '' OR {' OR '.join((*changed, *filled))}"


def install(statements):
    def run(apps, schema_editor):
        vendor = schema_editor.connection.vendor
        for statement in statements[vendor]:
            schema_editor.execute(f"{statement} {REFUSE[vendor] if statement.startswith('CREATE') else ''}", params=None)

    return run


NEW = {
    # SQLite may have rebuilt the table of entries, without triggers.
    'sqlite': [
        *(f'DROP TRIGGER IF EXISTS audit_no_{act}' for act in ('update', 'delete', 'replace')),
        f"CREATE TRIGGER audit_no_update BEFORE UPDATE ON {ENTRIES} WHEN {is_no_erasure('IS NOT')}",
        f'CREATE TRIGGER audit_no_delete BEFORE DELETE ON {ENTRIES}',
        f'CREATE TRIGGER audit_no_replace BEFORE INSERT ON {ENTRIES} '
        f'WHEN EXISTS (SELECT 1 FROM {ENTRIES} WHERE number = NEW.number)',
        'DROP TRIGGER audit_head_no_return',
        f'CREATE TRIGGER audit_head_no_return BEFORE UPDATE ON {HEAD} WHEN NEW.number <= OLD.number',
    ],
    'postgresql': [
        f'CREATE TRIGGER audit_no_delete BEFORE DELETE ON {ENTRIES} FOR EACH ROW',
        f"CREATE OR REPLACE TRIGGER audit_no_change BEFORE UPDATE ON {ENTRIES} FOR EACH ROW WHEN ({is_no_erasure('IS DISTINCT FROM')})",
        f'CREATE OR REPLACE TRIGGER audit_head_no_return BEFORE UPDATE ON {HEAD} FOR EACH ROW WHEN (NEW.number <= OLD.number)',
    ],
}
BEFORE = {
    'sqlite': [
        'DROP TRIGGER audit_no_update',
        f'CREATE TRIGGER audit_no_update BEFORE UPDATE ON {ENTRIES}',
        'DROP TRIGGER audit_head_no_return',
        f'CREATE TRIGGER audit_head_no_return BEFORE UPDATE ON {HEAD} WHEN NEW.number <> OLD.number + 1',
    ],
    'postgresql': [
        f'CREATE OR REPLACE TRIGGER audit_no_change BEFORE UPDATE OR DELETE ON {ENTRIES} FOR EACH ROW',
        f'DROP TRIGGER audit_no_delete ON {ENTRIES}',
        f'CREATE OR REPLACE TRIGGER audit_head_no_return BEFORE UPDATE ON {HEAD} FOR EACH ROW WHEN (NEW.number <> OLD.number + 1)',
    ],
}


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_squashed'),
    ]

    operations = [
        migrations.AddField(
            model_name='auditentry',
            name='salt',
            field=models.CharField(blank=True, db_default='', help_text='Random, so that nobody guesses from the hash what an erasure took. Empty: erased, or an old entry.', max_length=32),
        ),
        migrations.AddField(
            model_name='auditentry',
            name='erasures',
            field=models.JSONField(blank=True, help_text='Of each erasure of a person that changed it: its id, and the hash afterwards.', null=True),
        ),
        migrations.AlterField(
            model_name='auditentry',
            name='hash',
            field=models.CharField(help_text='SHA-256 of the fields as canonical JSON (RFC 8785).', max_length=64),
        ),
        migrations.RunPython(install(NEW), install(BEFORE)),
    ]
