import apps.accounts.secrets.encryption
import apps.payments.models
import datetime
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
import uuid
from django.conf import settings
from django.db import migrations, models

from parley.db.tables import CreateModels


class Migration(migrations.Migration):

    replaces = [
        ('payments', '0001_payment_budgets'),
        ('payments', '0002_payments_are_work'),
    ]

    initial = True

    dependencies = [
        ('agents', '0001_squashed'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        CreateModels(
            models=[
                migrations.CreateModel(
                    name='PaymentBudget',
                    fields=[
                        ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                        ('name', models.CharField(max_length=80)),
                        ('is_on', models.BooleanField(default=True, help_text='Off: people pay themselves.', verbose_name='on')),
                        ('network', models.CharField(help_text='As x402 names it, such as base.', max_length=200)),
                        ('asset', models.CharField(help_text='The token’s address on the network.', max_length=200)),
                        ('payment_limit', models.PositiveBigIntegerField(help_text='In the asset’s smallest unit: 10000 is 0.01 USDC.', validators=[django.core.validators.MinValueValidator(1)], verbose_name='most for one payment')),
                        ('period_limit', models.PositiveBigIntegerField(help_text='Also in the smallest unit.', validators=[django.core.validators.MinValueValidator(1)], verbose_name='most in a period')),
                        ('period', models.CharField(choices=[('day', 'Day'), ('month', 'Month')], default='day', help_text='Periods begin in UTC.', max_length=5)),
                        ('wallet', models.CharField(help_text='The URL of a service that signs payments. Parley has no keys of its own.', max_length=500, validators=[apps.payments.models.check_wallet])),
                        ('secret', apps.accounts.secrets.encryption.EncryptedTextField(blank=True, editable=False, help_text='Sent to the wallet as a bearer token.')),
                        ('spent', models.PositiveBigIntegerField(default=0, editable=False)),
                        ('period_began', models.DateField(default=datetime.date(1, 1, 1), editable=False)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                        ('only_named', models.BooleanField(default=False, help_text='Off: all agents are paid.', verbose_name='only the agents chosen below')),
                        ('agents', models.ManyToManyField(blank=True, related_name='+', to='agents.agent')),
                        ('owner', models.ForeignKey(blank=True, help_text='Whose tasks it pays for. Empty: those of everybody in the workspace.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='accounts.workspace')),
                    ],
                    options={
                        'ordering': ['name', 'pk'],
                        'constraints': [models.CheckConstraint(condition=models.Q(('payment_limit__lte', models.F('period_limit'))), name='a_payment_fits_into_its_period', violation_error_message='One payment must not be more than all in a period.')],
                    },
                ),
                migrations.CreateModel(
                    name='BudgetPayment',
                    fields=[
                        ('id', models.UUIDField(default=uuid.uuid4, editable=False, primary_key=True, serialize=False)),
                        ('task', models.UUIDField(help_text='Its key. The session may be gone.')),
                        ('asked', models.PositiveIntegerField(help_text='The index of the event that asked for it.')),
                        ('requirements', models.JSONField(default=dict, help_text="What is paid, as one of x402's `accepts`.")),
                        ('amount', models.CharField(help_text="In the asset's smallest unit.", max_length=78)),
                        ('period_began', models.DateField(help_text='Of the budget, when it was reserved.', null=True)),
                        ('state', models.CharField(choices=[('due', 'being paid'), ('paid', 'Paid'), ('unknown', 'perhaps paid'), ('failed', 'not paid'), ('declined', 'left to people')], default='due', max_length=8)),
                        ('reason', models.CharField(blank=True, help_text='Why it was not paid.', max_length=1000)),
                        ('authorization', models.CharField(blank=True, help_text='Digest of what the wallet signed.', max_length=64)),
                        ('sealed', apps.accounts.secrets.encryption.EncryptedTextField(editable=False, null=True)),
                        ('receipt', models.JSONField(null=True)),
                        ('tries', models.PositiveSmallIntegerField(default=0)),
                        ('next_try_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                        ('agent', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='agents.agent')),
                        ('owner', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                        ('workspace', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='accounts.workspace')),
                        ('budget', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='payments', to='payments.paymentbudget')),
                        ('fence', models.PositiveIntegerField(db_default=0, default=0, editable=False, help_text='Grows with every claim; an older number is void.')),
                        ('lease_until', models.DateTimeField(blank=True, editable=False, null=True)),
                    ],
                    options={
                        'ordering': ['-created_at'],
                        'indexes': [
                            models.Index(condition=models.Q(('state', 'due')), fields=['next_try_at'], name='due_budget_payments'),
                            models.Index(fields=['owner', '-created_at'], name='budget_payments_of_a_person'),
                        ],
                        'constraints': [models.UniqueConstraint(fields=('task', 'asked'), name='a_budget_pays_a_question_once')],
                    },
                ),
            ],
        ),
    ]
