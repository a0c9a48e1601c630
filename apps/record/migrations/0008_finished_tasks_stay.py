"""The database itself refuses to change a finished task.

A task that is given to a fork's log (`features.forks.handover`) takes the state that it has there: its context changes in
the same statement. Deleting is allowed. A migration that rebuilds the table on SQLite has to install the trigger again.
"""

from django.db import migrations

COLUMNS = ('state', 'status_message', 'slot', 'metadata', 'status_at', 'status_event')
FINISHED = "OLD.state IN ('completed', 'failed', 'canceled', 'rejected')"
MESSAGE = 'A finished task does not change.'


def changed(operator):
    return 'NEW.context_id = OLD.context_id AND (' + ' OR '.join(f'NEW.{n} {operator} OLD.{n}' for n in COLUMNS) + ')'


# PostgreSQL reads the condition of WHEN with each update, so it is short. It is AFTER, because BEFORE locks the row once more.
INSTALL = {
    'sqlite': [
        f"CREATE TRIGGER finished_tasks_stay BEFORE UPDATE ON record_task WHEN {FINISHED} AND {changed('IS NOT')} "
        f"BEGIN SELECT RAISE(ABORT, '{MESSAGE}'); END",
    ],
    'postgresql': [
        'CREATE FUNCTION finished_task_refuse() RETURNS trigger LANGUAGE plpgsql AS '
        f"$$ BEGIN IF {changed('IS DISTINCT FROM')} THEN RAISE EXCEPTION '{MESSAGE}' "
        "USING ERRCODE = 'restrict_violation'; END IF; RETURN NULL; END $$",
        'CREATE TRIGGER finished_tasks_stay AFTER UPDATE ON record_task '
        f'FOR EACH ROW WHEN ({FINISHED}) EXECUTE FUNCTION finished_task_refuse()',
    ],
}
REMOVE = {
    'sqlite': ['DROP TRIGGER finished_tasks_stay'],
    'postgresql': ['DROP FUNCTION finished_task_refuse() CASCADE'],
}


def protect(apps, schema_editor):
    for statement in INSTALL[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def leave_unprotected(apps, schema_editor):
    for statement in REMOVE[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):

    dependencies = [
        ('record', '0007_shared_sessions'),
    ]

    operations = [
        migrations.RunPython(protect, leave_unprotected),
    ]
