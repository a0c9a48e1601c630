"""The tables of conversations. The database itself refuses to change a finished task, and to change or delete events.

A task that is given to a fork's log (`conversations.forks.handover`) takes the state that it has there: its context changes in
the same statement. Deleting a task is allowed. Events of a context that `record.chain.erasing` names may be deleted, or move
to another context as they are. A migration that rebuilds one of the tables on SQLite has to install its triggers again.
"""

import apps.accounts.secrets.encryption
import django.db.models.deletion
import django.db.models.functions.comparison
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


def changed(columns, operator):
    return ' OR '.join(f'NEW.{name} {operator} OLD.{name}' for name in columns)


TASK = ('state', 'status_message', 'slot', 'metadata', 'status_at', 'status_event')
FINISHED = "OLD.state IN ('completed', 'failed', 'canceled', 'rejected')"
FINISHED_STAYS = 'A finished task does not change.'
EVENT = ('id', '"index"', 'type', 'task_id', 'run', 'artifact_id', 'payload', 'at', 'hash')
EVENTS_STAY = 'The log only grows: its events are neither changed nor deleted. Delete or archive the session instead.'
REFUSE = f"BEGIN SELECT RAISE(ABORT, '{EVENTS_STAY}'); END"
CLOSED = {
    'sqlite': 'NOT EXISTS (SELECT 1 FROM record_erasing WHERE context_id = OLD.context_id)',
    'postgresql': "OLD.context_id::text IS DISTINCT FROM current_setting('parley.erasing', true)",
}
INSTALL = {
    # REPLACE deletes a row without the triggers of DELETE.
    'sqlite': [
        f'CREATE TRIGGER finished_tasks_stay BEFORE UPDATE ON record_task WHEN {FINISHED} '
        f"AND NEW.context_id = OLD.context_id AND ({changed(TASK, 'IS NOT')}) "
        f"BEGIN SELECT RAISE(ABORT, '{FINISHED_STAYS}'); END",
        'CREATE TABLE record_erasing (context_id char(32) NOT NULL PRIMARY KEY) WITHOUT ROWID',
        f"CREATE TRIGGER event_no_update BEFORE UPDATE ON record_event WHEN {CLOSED['sqlite']} "
        f"OR {changed(EVENT, 'IS NOT')} {REFUSE}",
        f"CREATE TRIGGER event_no_delete BEFORE DELETE ON record_event WHEN {CLOSED['sqlite']} {REFUSE}",
        'CREATE TRIGGER event_no_replace BEFORE INSERT ON record_event WHEN EXISTS (SELECT 1 FROM record_event '
        f'WHERE id = NEW.id OR (context_id = NEW.context_id AND "index" = NEW."index")) {REFUSE}',
    ],
    # PostgreSQL reads the condition of WHEN with each update of a task, so it is short. It is AFTER, because BEFORE locks the
    # row once more.
    'postgresql': [
        'CREATE FUNCTION finished_task_refuse() RETURNS trigger LANGUAGE plpgsql AS '
        f"$$ BEGIN IF NEW.context_id = OLD.context_id AND ({changed(TASK, 'IS DISTINCT FROM')}) "
        f"THEN RAISE EXCEPTION '{FINISHED_STAYS}' USING ERRCODE = 'restrict_violation'; END IF; RETURN NULL; END $$",
        'CREATE TRIGGER finished_tasks_stay AFTER UPDATE ON record_task '
        f'FOR EACH ROW WHEN ({FINISHED}) EXECUTE FUNCTION finished_task_refuse()',
        'CREATE FUNCTION event_refuse() RETURNS trigger LANGUAGE plpgsql AS '
        f"$$ BEGIN RAISE EXCEPTION '{EVENTS_STAY}' USING ERRCODE = 'restrict_violation'; END $$",
        'CREATE TRIGGER event_no_update BEFORE UPDATE ON record_event FOR EACH ROW '
        f"WHEN ({CLOSED['postgresql']} OR {changed(EVENT, 'IS DISTINCT FROM')}) EXECUTE FUNCTION event_refuse()",
        'CREATE TRIGGER event_no_delete BEFORE DELETE ON record_event FOR EACH ROW '
        f"WHEN ({CLOSED['postgresql']}) EXECUTE FUNCTION event_refuse()",
        'CREATE TRIGGER event_no_truncate BEFORE TRUNCATE ON record_event EXECUTE FUNCTION event_refuse()',
    ],
}
REMOVE = {
    'sqlite': [
        'DROP TRIGGER finished_tasks_stay',
        *(f'DROP TRIGGER IF EXISTS event_no_{act}' for act in ('update', 'delete', 'replace')),
        'DROP TABLE record_erasing',
    ],
    'postgresql': ['DROP FUNCTION finished_task_refuse() CASCADE', 'DROP FUNCTION event_refuse() CASCADE'],
}


def protect(apps, schema_editor):
    for statement in INSTALL[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


def leave_unprotected(apps, schema_editor):
    for statement in REMOVE[schema_editor.connection.vendor]:
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):

    replaces = [
        ('record', '0001_initial'),
        ('record', '0002_list_indexes'),
        ('record', '0003_events_without_a_constraint'),
        ('record', '0004_operators_lists'),
        ('record', '0005_finished_runs'),
        ('record', '0006_fair_queue'),
        ('record', '0007_shared_sessions'),
        ('record', '0008_finished_tasks_stay'),
        ('record', '0009_approvals'),
        ('record', '0010_workspaces'),
        ('record', '0011_imports_and_families'),
        ('record', '0012_families_of_forks'),
        ('record', '0013_imported_sessions_by_time'),
        ('record', '0014_families_of_an_owner'),
        ('record', '0015_effects'),
        ('record', '0016_session_forked'),
        ('record', '0017_dependencies'),
        ('record', '0018_payments'),
        ('record', '0019_permission_to_approve'),
        ('record', '0020_sealed_payments'),
        ('record', '0021_runs_alone'),
        ('record', '0022_hashes_of_events'),
        ('record', '0023_newest_hash_of_contexts'),
        ('record', '0024_events_stay'),
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
                    name='Context',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('context_id', models.CharField(help_text="A2A contextId: the caller's own, or the primary key.", max_length=200)),
                        ('title', models.CharField(blank=True, max_length=200)),
                        ('forked_at', models.PositiveBigIntegerField(blank=True, help_text='Index of the last event shared with the parent.', null=True)),
                        ('fork_reason', models.CharField(blank=True, max_length=40)),
                        ('parent_task', models.UUIDField(blank=True, help_text='The task that started this session.', null=True)),
                        ('last_event', models.PositiveBigIntegerField(default=0, help_text='Index of the newest event.')),
                        ('options', models.JSONField(blank=True, default=dict, help_text='Options of the agent in this session.')),
                        ('memory', models.JSONField(blank=True, default=dict, help_text='State of its agents. Not part of replay.')),
                        ('is_watched', models.BooleanField(default=False, help_text='Whether listeners are called. Not part of replay.', verbose_name='watched')),
                        ('created_at', models.DateTimeField()),
                        ('updated_at', models.DateTimeField()),
                        ('archived_at', models.DateTimeField(blank=True, help_text='When its owner archived it.', null=True)),
                        ('deleted_at', models.DateTimeField(blank=True, help_text='When it was deleted. Only this row is kept.', null=True)),
                        ('cold_file', models.CharField(blank=True, help_text='The file that holds its log and rows. Empty: not in cold storage.', max_length=200)),
                        ('cold_at', models.DateTimeField(blank=True, null=True, verbose_name='cold since')),
                        ('cold_messages', models.PositiveIntegerField(default=0, help_text='The number of messages, while in cold storage.')),
                        ('warmed_at', models.DateTimeField(blank=True, help_text='When it was last restored, or could not be archived.', null=True)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='contexts', to='agents.agent')),
                        ('owner', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='contexts', to=settings.AUTH_USER_MODEL)),
                        ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='forks', to='record.context')),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='contexts', to='accounts.workspace')),
                        ('is_shared', models.BooleanField(db_default=False, default=False, help_text='May the members of its workspace see it?', verbose_name='shared')),
                        ('approved_tools', models.JSONField(blank=True, default=list, help_text='Tools that run here without asking again. Not part of replay.')),
                        ('imported_at', models.DateTimeField(blank=True, help_text="When it was imported. Its other times are its conversation's.", null=True, verbose_name='imported')),
                        ('root', models.UUIDField(blank=True, help_text="The first session of a fork's family.", null=True)),
                        ('head_hash', models.CharField(blank=True, editable=False, help_text="The newest event's hash. Not part of replay.", max_length=64, null=True)),
                    ],
                    options={
                        'verbose_name': 'session',
                        'indexes': [
                            models.Index(condition=models.Q(('parent_task', None)), fields=['owner', '-updated_at', '-id'], name='listed_contexts_of_an_owner'),
                            models.Index(models.F('owner'), django.db.models.functions.comparison.Coalesce('root', 'id'), name='families_of_an_owner'),
                            models.Index(condition=models.Q(('is_shared', True)), fields=['workspace', '-updated_at', '-id'], name='shared_contexts'),
                            models.Index(condition=models.Q(('parent_task__isnull', False)), fields=['parent_task'], name='contexts_of_children'),
                            models.Index(fields=['-updated_at', '-id'], name='contexts_by_update'),
                            models.Index(condition=models.Q(('imported_at__isnull', False)), fields=['imported_at'], name='imported_contexts'),
                            models.Index(condition=models.Q(('deleted_at__isnull', False)), fields=['-updated_at', '-id'], name='deleted_contexts'),
                            models.Index(condition=models.Q(('cold_at__isnull', False)), fields=['-updated_at', '-id'], name='cold_contexts'),
                        ],
                        'constraints': [models.UniqueConstraint(condition=models.Q(('deleted_at', None)), fields=('owner', 'workspace', 'context_id'), name='context_id_is_unique_for_its_owner')],
                    },
                ),
                migrations.CreateModel(
                    name='ColdKey',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('kind', models.CharField(help_text='The model, such as `record.task`.', max_length=40)),
                        ('key', models.CharField(max_length=40)),
                        ('context', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cold_keys', to='record.context')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('kind', 'key'), name='a_row_is_in_one_cold_file')],
                    },
                ),
                migrations.CreateModel(
                    name='Task',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('state', models.CharField(choices=[('submitted', 'Submitted'), ('working', 'Working'), ('input-required', 'Input Required'), ('auth-required', 'Auth Required'), ('completed', 'Completed'), ('failed', 'Failed'), ('rejected', 'Rejected'), ('canceled', 'Canceled')], max_length=20)),
                        ('status_message', models.JSONField(blank=True, help_text='A2A message of the current status.', null=True)),
                        ('slot', models.JSONField(blank=True, help_text='What the task asked for: name and JSON Schema.', null=True)),
                        ('references', models.JSONField(blank=True, default=list, help_text='Ids of the tasks that this one refines.')),
                        ('metadata', models.JSONField(blank=True, default=dict)),
                        ('first_event', models.PositiveBigIntegerField(help_text='Index of the event that opened it.')),
                        ('status_event', models.PositiveBigIntegerField(help_text='Index of the event that brought its state.')),
                        ('created_at', models.DateTimeField()),
                        ('status_at', models.DateTimeField()),
                        ('agent', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='tasks', to='agents.agent')),
                        ('context', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='record.context')),
                        ('owner', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to=settings.AUTH_USER_MODEL)),
                        ('parent', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='children', to='record.task')),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tasks', to='accounts.workspace')),
                    ],
                    options={
                        'permissions': [('approve_task', 'Can decide about tool calls in all workspaces')],
                        'indexes': [
                            models.Index(fields=['owner', '-status_at', '-id'], name='tasks_of_an_owner_by_status'),
                            models.Index(fields=['owner', 'agent', '-status_at', '-id'], name='tasks_of_an_owner'),
                            models.Index(fields=['owner', 'agent', 'state', '-status_at', '-id'], name='tasks_of_an_owner_by_state'),
                            models.Index(fields=['context', '-status_at', '-id'], name='tasks_of_a_context_by_status'),
                            models.Index(fields=['context', 'created_at'], name='tasks_of_a_context'),
                            models.Index(fields=['agent', '-created_at'], name='tasks_of_an_agent'),
                            models.Index(fields=['-status_at', '-id'], name='tasks_by_status'),
                            models.Index(condition=models.Q(('parent__isnull', False), ('state__in', ('submitted', 'working', 'input-required', 'auth-required'))), fields=['parent'], name='unfinished_children'),
                            models.Index(condition=models.Q(('state__in', ('submitted', 'working', 'input-required', 'auth-required'))), fields=['state', '-status_at'], name='unfinished_tasks'),
                            models.Index(condition=models.Q(('state__in', ('failed', 'rejected', 'canceled'))), fields=['state', '-status_at'], name='faulty_tasks'),
                            models.Index(condition=models.Q(('parent', None), ('state__in', ('input-required', 'auth-required'))), fields=['owner', '-status_at'], name='tasks_that_wait'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='Event',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('index', models.PositiveBigIntegerField()),
                        ('type', models.CharField(choices=[('user_message', 'User Message'), ('agent_start', 'Agent Start'), ('agent_status', 'Agent Status'), ('agent_message', 'Agent Message'), ('agent_token_start', 'Agent Token Start'), ('agent_token', 'Agent Token'), ('agent_token_end', 'Agent Token End'), ('agent_thought', 'Agent Thought'), ('agent_tool_call', 'Agent Tool Call'), ('agent_tool_result', 'Agent Tool Result'), ('artifact_update', 'Artifact Update'), ('agent_complete', 'Agent Complete'), ('agent_failed', 'Agent Failed'), ('agent_cancelled', 'Agent Cancelled'), ('fork', 'Fork'), ('edit', 'Edit'), ('agent_switched', 'Agent Switched'), ('feedback', 'Feedback'), ('session_renamed', 'Session Renamed'), ('session_archived', 'Session Archived'), ('session_unarchived', 'Session Unarchived'), ('session_deleted', 'Session Deleted'), ('session_shared', 'Session Shared'), ('session_forked', 'Session Forked')], max_length=30)),
                        ('run', models.UUIDField(blank=True, null=True)),
                        ('artifact_id', models.CharField(blank=True, help_text='The artifact of a chunk.', max_length=200)),
                        ('payload', models.JSONField()),
                        ('at', models.DateTimeField()),
                        ('context', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='events', to='record.context')),
                        ('task', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='events', to='record.task')),
                        ('hash', models.CharField(blank=True, help_text='SHA-256 of the event and of the hash before it.', max_length=64, null=True)),
                    ],
                    options={
                        'ordering': ['index'],
                        'indexes': [
                            models.Index(fields=['task', 'artifact_id', 'index'], name='events_of_a_task'),
                            models.Index(condition=models.Q(('type', 'feedback')), fields=['task', '-index'], name='feedback_on_a_task'),
                            models.Index(condition=models.Q(('type', 'feedback')), fields=['-id'], name='feedback_by_age'),
                            models.Index(condition=models.Q(('type', 'feedback')), fields=['at'], name='feedback_by_time'),
                            models.Index(condition=models.Q(('type__in', ('agent_switched', 'fork'))), fields=['context', '-index'], name='turnings_of_a_log'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('context', 'index'), name='event_index_is_unique')],
                    },
                ),
                migrations.CreateModel(
                    name='Feedback',
                    fields=[
                    ],
                    options={
                        'verbose_name_plural': 'feedback',
                        'proxy': True,
                    },
                    bases=('record.event',),
                ),
                migrations.CreateModel(
                    name='Message',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('index', models.PositiveBigIntegerField()),
                        ('role', models.CharField(choices=[('user', 'User'), ('agent', 'Agent')], max_length=5)),
                        ('message_id', models.CharField(max_length=200)),
                        ('parts', models.JSONField(help_text='A2A 1.0 parts.')),
                        ('references', models.JSONField(blank=True, default=list, help_text='referenceTaskIds, as they were sent.')),
                        ('extensions', models.JSONField(blank=True, default=list)),
                        ('metadata', models.JSONField(blank=True, default=dict)),
                        ('created_at', models.DateTimeField()),
                        ('agent', models.ForeignKey(blank=True, db_index=False, help_text='The agent that wrote it. Empty: a person.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='messages', to='agents.agent')),
                        ('context', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='record.context')),
                        ('task', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='record.task')),
                        ('author', models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='The person who wrote it. Empty: an agent, or an anonymous caller.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'ordering': ['index'],
                        'indexes': [
                            models.Index(fields=['task', 'index'], name='messages_of_a_task'),
                            models.Index(fields=['-created_at', '-id'], name='messages_by_age'),
                            models.Index(condition=models.Q(('role', 'agent'), ('task', None)), fields=['created_at'], name='answers_without_a_task'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('context', 'index'), name='message_index_is_unique')],
                    },
                ),
                migrations.CreateModel(
                    name='Segment',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('first', models.PositiveBigIntegerField(help_text='Index of an event.')),
                        ('last', models.PositiveBigIntegerField(help_text='Index of an event.')),
                        ('context', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='segments', to='record.context')),
                        ('source', models.ForeignKey(on_delete=django.db.models.deletion.RESTRICT, related_name='lent', to='record.context')),
                    ],
                    options={
                        'ordering': ['first'],
                        'constraints': [
                            models.UniqueConstraint(fields=('context', 'first'), name='segments_follow_each_other'),
                            models.CheckConstraint(condition=models.Q(('last__gte', models.F('first'))), name='a_segment_has_events'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='Suspension',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('asked_at', models.DateTimeField(help_text="The time of the child's status that is the question.")),
                        ('child', models.ForeignKey(help_text='None: it was deleted.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='suspends', to='record.task')),
                        ('task', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='suspension', to='record.task')),
                    ],
                ),
                migrations.CreateModel(
                    name='Run',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('turn', models.PositiveIntegerField(help_text="1 for the task's first message.")),
                        ('state', models.CharField(choices=[('waiting', 'waiting for other tasks'), ('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('canceled', 'Canceled')], default='queued', max_length=10)),
                        ('attempt', models.PositiveSmallIntegerField(default=0, help_text='Counted before the turn is executed.')),
                        ('fence', models.PositiveIntegerField(default=0, help_text='Grows with every claim. Older numbers are void.')),
                        ('worker', models.CharField(blank=True, max_length=120)),
                        ('lease_until', models.DateTimeField(blank=True, null=True)),
                        ('interrupted', models.BooleanField(default=False, help_text='A newer message asks this turn to stop.')),
                        ('slot', models.JSONField(blank=True, help_text='The question that this turn answers.', null=True)),
                        ('resumed', models.BooleanField(default=False, help_text='It continues the message of the turn before.')),
                        ('memory', models.JSONField(blank=True, default=dict)),
                        ('input', models.JSONField(blank=True, default=dict, help_text="Snapshot of the turn's input.")),
                        ('input_hash', models.CharField(blank=True, max_length=64)),
                        ('usage', models.JSONField(blank=True, default=dict)),
                        ('error', models.JSONField(blank=True, null=True)),
                        ('notes', models.JSONField(blank=True, default=list, help_text='Events that came too late.')),
                        ('remote', models.JSONField(blank=True, default=dict, help_text="A remote agent's ids.")),
                        ('traceparent', models.CharField(blank=True, help_text='Its span (W3C Trace Context).', max_length=55)),
                        ('queued_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('published_at', models.DateTimeField(blank=True, help_text='When the sweep last sent its message.', null=True)),
                        ('started_at', models.DateTimeField(blank=True, null=True)),
                        ('finished_at', models.DateTimeField(blank=True, null=True)),
                        ('agent', models.ForeignKey(blank=True, db_index=False, help_text="The agent that takes this turn instead of the task's agent. Empty: the task's agent.", null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.agent')),
                        ('message', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='record.message')),
                        ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='record.task')),
                        ('lane', models.CharField(blank=True, db_default='', default='', help_text='Whose turn it takes in the queue: workspace, agent and API key.', max_length=100)),
                        ('priority', models.PositiveSmallIntegerField(choices=[(0, 'part of a running turn'), (1, 'High'), (2, 'Normal'), (3, 'Low')], db_default=2, default=2, help_text='Within the workspace.')),
                        ('alone', models.BooleanField(db_default=False, default=False, help_text="A process died with it or with its agent's other runs. It has a process of its own.")),
                    ],
                    options={
                        'indexes': [
                            models.Index(condition=models.Q(('state__in', ['queued', 'running'])), fields=['state', 'lease_until'], name='unfinished_runs'),
                            models.Index(condition=models.Q(('state', 'queued')), fields=['lane', 'priority', 'queued_at'], name='queued_runs'),
                            models.Index(fields=['-queued_at', '-id'], name='runs_by_age'),
                            models.Index(condition=models.Q(('state__in', ['failed', 'canceled'])), fields=['state', '-queued_at'], name='faulty_runs'),
                            models.Index(condition=models.Q(('finished_at__isnull', False)), fields=['finished_at'], name='runs_by_end'),
                        ],
                        'constraints': [
                            models.UniqueConstraint(fields=('task', 'turn'), name='one_run_per_turn'),
                            models.UniqueConstraint(condition=models.Q(('state__in', ['queued', 'running'])), fields=('task',), name='one_unfinished_run_per_task'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='Artifact',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('artifact_id', models.CharField(max_length=200)),
                        ('run', models.UUIDField(blank=True, help_text='The run that makes it.', null=True)),
                        ('state', models.CharField(choices=[('provisional', 'being made'), ('delivered', 'Delivered'), ('discarded', 'of a turn that failed, was canceled, or was started again')], max_length=12)),
                        ('name', models.CharField(blank=True, max_length=250)),
                        ('description', models.TextField(blank=True)),
                        ('parts', models.JSONField(default=list)),
                        ('digest', models.CharField(blank=True, help_text='SHA-256 of the canonical JSON of the parts.', max_length=64)),
                        ('signature', models.JSONField(blank=True, default=dict, help_text="The agent's signature. Empty: none.")),
                        ('extensions', models.JSONField(blank=True, default=list)),
                        ('metadata', models.JSONField(blank=True, default=dict)),
                        ('first_event', models.PositiveBigIntegerField(help_text='Index of its first chunk.')),
                        ('created_at', models.DateTimeField()),
                        ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='artifacts', to='record.task')),
                    ],
                    options={
                        'ordering': ['first_event'],
                        'constraints': [models.UniqueConstraint(fields=('task', 'artifact_id'), name='artifact_id_is_unique_in_its_task')],
                    },
                ),
                migrations.CreateModel(
                    name='Accepted',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('sender', models.CharField(max_length=60)),
                        ('message_id', models.CharField(max_length=200)),
                        ('body_hash', models.CharField(max_length=64)),
                        ('claimed_until', models.DateTimeField(help_text='Until when a worker may answer without a task.', null=True)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('agent', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                        ('answer', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='record.message')),
                        ('task', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='record.task')),
                    ],
                    options={
                        'verbose_name_plural': 'accepted messages',
                        'constraints': [models.UniqueConstraint(fields=('sender', 'agent', 'message_id'), name='a_message_is_accepted_once')],
                    },
                ),
                migrations.CreateModel(
                    name='Blob',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('sha256', models.CharField(max_length=64)),
                        ('size', models.PositiveBigIntegerField(help_text='Bytes.')),
                        ('uses', models.PositiveIntegerField(default=0, help_text='The number of parts in this workspace that use it.')),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('workspace', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='blobs', to='accounts.workspace')),
                    ],
                    options={
                        'verbose_name': 'stored file',
                        'constraints': [models.UniqueConstraint(fields=('workspace', 'sha256'), name='one_count_per_workspace')],
                    },
                ),
                migrations.CreateModel(
                    name='Effect',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=100)),
                        ('key', models.CharField(max_length=200)),
                        ('claim', models.UUIDField(help_text='Of the attempt that runs it; the id of its tool call in the log.', unique=True)),
                        ('result', models.JSONField(null=True)),
                        ('started_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('finished_at', models.DateTimeField(help_text='Empty: it is under way, or unknown.', null=True)),
                        ('task', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='effects', to='record.task')),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('task', 'name', 'key'), name='an_effect_happens_once')],
                    },
                ),
                migrations.CreateModel(
                    name='Dependency',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('on', models.ForeignKey(help_text='None: it was deleted.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='dependents', to='record.task')),
                        ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='dependencies', to='record.task')),
                    ],
                    options={
                        'verbose_name_plural': 'dependencies',
                    },
                ),
                migrations.CreateModel(
                    name='Payment',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('authorization', models.CharField(help_text='Digest of what its payer signed.', max_length=64, unique=True)),
                        ('asked', models.PositiveIntegerField(help_text='The index of the event that asked for it.')),
                        ('state', models.CharField(choices=[('unknown', 'under way, or unknown'), ('settled', 'settled, its message not yet recorded'), ('used', 'Used'), ('failed', 'Failed'), ('sent', 'sent to a remote agent')], default='unknown', max_length=10)),
                        ('claimed_until', models.DateTimeField(help_text='Until when the facilitator may be asked.')),
                        ('receipt', models.JSONField(blank=True, default=dict)),
                        ('error', models.CharField(blank=True, max_length=500)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('task', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='payments', to='record.task')),
                        ('amount', models.CharField(blank=True, db_default='', default='', help_text="In the asset's smallest unit.", max_length=78)),
                        ('asset', models.CharField(blank=True, db_default='', default='', max_length=200)),
                        ('network', models.CharField(blank=True, db_default='', default='', max_length=200)),
                        ('pay_to', models.CharField(blank=True, db_default='', default='', max_length=200, verbose_name='to')),
                        ('sealed', apps.accounts.secrets.encryption.EncryptedTextField(editable=False, null=True)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(condition=models.Q(('state', 'unknown')), fields=('task',), name='one_unknown_payment_per_task')],
                    },
                ),
            ],
        ),
        migrations.RunPython(protect, leave_unprotected),
    ]
