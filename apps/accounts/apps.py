from apps.accounts.secrets.encryption import keyring
from parley.registry import ParleyApp


class AccountsConfig(ParleyApp):
    verbose_name = "People and access"
    admin_recorder = "audit.admin_entry"

    def ready(self) -> None:
        """Raises NoMasterKey: better at the start than at the first secret."""
        keyring()
        from apps.accounts import refusals, revocation, workspaces  # they need the models
        from apps.accounts.people import invitations, sign_in

        refusals.connect_sign_ins()
        sign_in.connect_audit()
        revocation.connect()
        invitations.accepted.connect(workspaces.join_invited, dispatch_uid="workspaces")
