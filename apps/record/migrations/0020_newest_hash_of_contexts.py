from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('record', '0019_hashes_of_events'),
    ]

    operations = [
        migrations.AddField(
            model_name='context',
            name='head_hash',
            field=models.CharField(blank=True, editable=False, help_text="The newest event's hash. Not part of replay.", max_length=64, null=True),
        ),
    ]
