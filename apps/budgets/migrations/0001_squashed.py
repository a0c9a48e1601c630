import django.core.validators
import django.db.models.deletion
import django.db.models.functions.comparison
import django.utils.timezone
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('budgets', '0001_initial'),
        ('budgets', '0002_tokens_and_keys'),
    ]

    initial = True

    dependencies = [
        ('agents', '0001_squashed'),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='Budget',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('soft_limit', models.FloatField(blank=True, help_text='Above it operators get a notice. Nothing is refused.', null=True, validators=[django.core.validators.MinValueValidator(0.0)])),
                        ('hard_limit', models.FloatField(blank=True, help_text='Above it language models are not called until the next month. A notice is sent at 80 %.', null=True, validators=[django.core.validators.MinValueValidator(0.0)])),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('agent', models.ForeignKey(blank=True, help_text='Empty: all agents.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='agents.agent')),
                        ('workspace', models.ForeignKey(blank=True, help_text='Empty: all workspaces.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
                        ('api_key', models.ForeignKey(blank=True, help_text='Empty: all keys, and people.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.apikey', verbose_name='API key')),
                        ('token_limit', models.PositiveBigIntegerField(blank=True, help_text='Tokens, in and out. Beyond it, as beyond the hard limit. A notice is sent at 80 %.', null=True)),
                    ],
                    options={
                        'ordering': ['id'],
                        'constraints': [
                            models.UniqueConstraint(django.db.models.functions.comparison.Coalesce('workspace', 0), django.db.models.functions.comparison.Coalesce('agent', 0), django.db.models.functions.comparison.Coalesce('api_key', 0), name='budget_is_unique', violation_error_message='There is a budget for this already. Change that one.'),
                            models.CheckConstraint(condition=models.Q(('soft_limit__isnull', False), ('hard_limit__isnull', False), ('token_limit__isnull', False), _connector='OR'), name='budget_has_a_limit', violation_error_message='Give at least one limit.'),
                            models.CheckConstraint(condition=models.Q(('soft_limit', None), ('hard_limit', None), ('soft_limit__lte', models.F('hard_limit')), _connector='OR'), name='soft_limit_is_below_hard_limit', violation_error_message='The soft limit must not be above the hard limit.'),
                            models.CheckConstraint(condition=models.Q(('workspace', None), ('api_key', None), _connector='OR'), name='budget_of_a_key_is_of_its_workspace', violation_error_message='A key belongs to one workspace. Leave the workspace empty.'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='BudgetNotice',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('month', models.DateField()),
                        ('level', models.CharField(choices=[('near', '80 % of the hard limit'), ('soft', 'the soft limit'), ('hard', 'the hard limit'), ('tokens_near', '80 % of the token limit'), ('tokens', 'the token limit')], max_length=11)),
                        ('limit', models.FloatField(help_text='As it was then: a raised limit gives a new notice.')),
                        ('spent', models.FloatField(help_text='The cost, or the tokens.')),
                        ('at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('sent_at', models.DateTimeField(editable=False, null=True)),
                        ('budget', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='budgets.budget')),
                    ],
                    options={
                        'ordering': ['-id'],
                        'constraints': [models.UniqueConstraint(fields=('budget', 'month', 'level', 'limit'), name='budget_notice_is_unique')],
                    },
                ),
                migrations.CreateModel(
                    name='Spending',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('run', models.UUIDField(editable=False)),
                        ('model', models.CharField(max_length=200)),
                        ('month', models.DateField(help_text='Its first day, in UTC.')),
                        ('at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('context', models.UUIDField(help_text='Its key. The session may be gone.', verbose_name='session')),
                        ('requests', models.BigIntegerField(default=0)),
                        ('input_tokens', models.BigIntegerField(default=0)),
                        ('output_tokens', models.BigIntegerField(default=0)),
                        ('cost', models.FloatField(default=0.0, help_text='0 where the model has no price.')),
                        ('agent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agent')),
                        ('workspace', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.workspace')),
                        ('key', models.CharField(blank=True, db_default='', default='', help_text='The public name of the key, or of the OAuth client, that sent the task.', max_length=100, verbose_name='API key')),
                    ],
                    options={
                        'verbose_name_plural': 'spending',
                        'ordering': ['-id'],
                        'indexes': [
                            models.Index(fields=['month', 'workspace', 'agent', 'key', 'cost', 'input_tokens', 'output_tokens'], name='spending_in_a_month'),
                            models.Index(fields=['context'], name='spending_of_a_session'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('run', 'model'), name='spending_of_a_run_is_unique')],
                    },
                ),
            ],
        ),
    ]
