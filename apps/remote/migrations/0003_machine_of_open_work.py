from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ('remote', '0002_agent_state'),
    ]

    operations = [
        migrations.AddField(
            model_name='openwork',
            name='machine',
            field=models.CharField(blank=True, db_default='', default='', help_text='The machine whose process has it. Empty: it can be called from all.', max_length=255),
        ),
    ]
