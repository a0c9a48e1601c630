from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("record", "0012_imported_sessions_by_time"),
    ]

    operations = [
        migrations.AddField(
            model_name="context",
            name="root",
            field=models.UUIDField(blank=True, help_text="The first session of a fork's family.", null=True),
        ),
    ]
