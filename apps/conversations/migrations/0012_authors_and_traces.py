import django.db.models.deletion
from django.db import migrations, models
from django.db.models import OuterRef, Subquery
from django.db.models.functions import Coalesce


def name_authors(apps, schema_editor):
    """Until now a task's messages were all its agent's, and a conversation's answers those of its only agent."""
    message, task, context = (apps.get_model("conversations", name) for name in ("Message", "Task", "Context"))
    of_task = task.objects.filter(pk=OuterRef("task")).values("agent")
    of_context = context.objects.filter(pk=OuterRef("context")).values("agent")
    message.objects.filter(role="agent").update(agent=Coalesce(Subquery(of_task), Subquery(of_context)))


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0007_fallbacks'),
        ('conversations', '0011_asked_at'),
    ]

    operations = [
        migrations.AddField(
            model_name='message',
            name='agent',
            field=models.ForeignKey(blank=True, db_index=False, help_text='Which agent wrote it; empty: the owner of the conversation.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='messages', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='run',
            name='agent',
            field=models.ForeignKey(blank=True, db_index=False, help_text="Who takes the turn in the place of the task's agent; empty: that one itself.", null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='agents.agent'),
        ),
        migrations.AddField(
            model_name='run',
            name='traceparent',
            field=models.CharField(blank=True, help_text='Its span (W3C Trace Context).', max_length=55),
        ),
        migrations.RunPython(name_authors, migrations.RunPython.noop),
    ]
