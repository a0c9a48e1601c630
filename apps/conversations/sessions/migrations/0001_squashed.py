import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('session_marks', '0001_initial'),
        ('session_marks', '0002_legal_holds'),
    ]

    initial = True

    dependencies = [
        ('record', '0001_squashed'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='SessionMark',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('pinned_at', models.DateTimeField(blank=True, null=True)),
                        ('seen', models.PositiveBigIntegerField(default=0, help_text='Index of the newest event that the person has seen.')),
                        ('context', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='marks', to='record.context')),
                        ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                    ],
                    options={
                        'constraints': [models.UniqueConstraint(fields=('user', 'context'), name='one_mark_of_a_person_per_session')],
                    },
                ),
                migrations.CreateModel(
                    name='LegalHold',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('reason', models.CharField(help_text='For operators, such as the number of the case.', max_length=500)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('context', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='legal_holds', to='record.context', verbose_name='session')),
                        ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='legal_holds', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='legal_holds', to='accounts.workspace')),
                    ],
                    options={
                        'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('context__isnull', False), ('user', None), ('workspace', None)), models.Q(('context', None), ('user', None), ('workspace__isnull', False)), models.Q(('context', None), ('user__isnull', False), ('workspace', None)), _connector='OR'), name='a_hold_is_on_one_thing', violation_error_message='Choose one of them: a person, a workspace or a session.')],
                    },
                ),
            ],
        ),
    ]
