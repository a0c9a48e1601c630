from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0007_mcp_tools"),
    ]

    operations = [
        migrations.AlterField(
            model_name="toolpolicy",
            name="policy",
            field=models.CharField(
                choices=[
                    ("run", "run it"),
                    ("ask", "ask a person"),
                    ("ask_each", "ask a person each time"),
                    ("ask_two", "ask two people"),
                    ("never", "never run it"),
                ],
                default="ask",
                max_length=10,
            ),
        ),
    ]
