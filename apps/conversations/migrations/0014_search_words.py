from django.db import migrations

from apps.conversations.search import tables


class Migration(migrations.Migration):
    """The index of words. A later migration that changes SearchEntry drops it first and makes it again."""

    dependencies = [("conversations", "0013_sessions")]

    operations = [migrations.RunPython(tables.make, tables.drop)]
