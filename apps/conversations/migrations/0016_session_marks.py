import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


SEEN = """
INSERT INTO conversations_sessionmark (user_id, context_id, seen)
SELECT owner_id, id, last_event FROM conversations_context
WHERE owner_id IS NOT NULL AND parent_task IS NULL AND deleted_at IS NULL
"""


class Migration(migrations.Migration):
    """What was said before there were marks is not new to anybody."""

    dependencies = [
        ('conversations', '0015_where_tasks_begin'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SessionMark',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pinned_at', models.DateTimeField(blank=True, null=True)),
                ('seen', models.PositiveBigIntegerField(default=0, help_text='Index of the newest event that the person has seen.')),
                ('context', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='marks', to='conversations.context')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('user', 'context'), name='one_mark_of_a_person_per_session')],
            },
        ),
        migrations.RunSQL(SEEN, migrations.RunSQL.noop),
    ]
