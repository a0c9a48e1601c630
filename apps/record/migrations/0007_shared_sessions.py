"""Sessions that are shared with their workspace, and who wrote each message: until now their sessions' owners."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


def name_authors(apps, schema_editor):
    database = schema_editor.connection.alias
    Context, Message = apps.get_model("record", "Context"), apps.get_model("record", "Message")
    owner = Context.objects.using(database).filter(pk=models.OuterRef("context")).values("owner")
    Message.objects.using(database).filter(role="user").update(author=models.Subquery(owner))


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0007_memberships'),
        ('agents', '0003_activity'),
        ('record', '0006_fair_queue'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='context',
            name='is_shared',
            field=models.BooleanField(db_default=False, default=False, help_text='May the members of its workspace see it?', verbose_name='shared'),
        ),
        migrations.AddField(
            model_name='message',
            name='author',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, help_text='The person who wrote it. Empty: an agent, or an anonymous caller.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.RunPython(name_authors, migrations.RunPython.noop),
        migrations.AlterField(
            model_name='event',
            name='type',
            field=models.CharField(choices=[('user_message', 'User Message'), ('agent_start', 'Agent Start'), ('agent_status', 'Agent Status'), ('agent_message', 'Agent Message'), ('agent_token_start', 'Agent Token Start'), ('agent_token', 'Agent Token'), ('agent_token_end', 'Agent Token End'), ('agent_thought', 'Agent Thought'), ('agent_tool_call', 'Agent Tool Call'), ('agent_tool_result', 'Agent Tool Result'), ('artifact_update', 'Artifact Update'), ('agent_complete', 'Agent Complete'), ('agent_failed', 'Agent Failed'), ('agent_cancelled', 'Agent Cancelled'), ('fork', 'Fork'), ('edit', 'Edit'), ('agent_switched', 'Agent Switched'), ('feedback', 'Feedback'), ('session_renamed', 'Session Renamed'), ('session_archived', 'Session Archived'), ('session_unarchived', 'Session Unarchived'), ('session_deleted', 'Session Deleted'), ('session_shared', 'Session Shared')], max_length=30),
        ),
        migrations.AlterField(
            model_name='message',
            name='agent',
            field=models.ForeignKey(blank=True, db_index=False, help_text='The agent that wrote it. Empty: a person.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='messages', to='agents.agent'),
        ),
        migrations.AddIndex(
            model_name='context',
            index=models.Index(condition=models.Q(('is_shared', True)), fields=['workspace', '-updated_at', '-id'], name='shared_contexts'),
        ),
    ]
