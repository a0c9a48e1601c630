from django.apps import AppConfig

from apps.accounts.encryption import keyring


class AccountsConfig(AppConfig):
    name = "apps.accounts"
    label = "accounts"
    verbose_name = "People and access"

    def ready(self) -> None:
        """Raises NoMasterKey: better at the start than at the first secret."""
        keyring()
