from django.db import migrations

FIRST = """SELECT MIN("index") FROM conversations_event WHERE task_id = conversations_task.id"""
STATUS = """
SELECT MAX("index") FROM conversations_event
WHERE task_id = conversations_task.id AND type = 'agent_status' AND CAST(payload AS text) NOT LIKE '%"kept":%'
"""


class Migration(migrations.Migration):
    """Tasks of before know which events opened them and brought their state."""

    dependencies = [("conversations", "0014_search_words")]

    operations = [
        migrations.RunSQL(
            f"""UPDATE conversations_task
                SET first_event = COALESCE(({FIRST}), 0), status_event = COALESCE(({STATUS}), ({FIRST}), 0)""",
            migrations.RunSQL.noop,
        )
    ]
