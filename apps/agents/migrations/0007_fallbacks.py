from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('agents', '0006_versions'),
    ]

    operations = [
        migrations.AddField(
            model_name='agent',
            name='fallbacks',
            field=models.JSONField(blank=True, default=list, help_text='Slugs of the agents that take a turn when this one cannot be reached, the first first.'),
        ),
        migrations.AlterField(
            model_name='agent',
            name='access',
            field=models.CharField(choices=[('public', 'everybody, without signing in'), ('authenticated', 'everybody who is signed in or has a key'), ('groups', 'members of named groups'), ('workspace', 'members of its workspace')], default='authenticated', max_length=20),
        ),
    ]
