from parley.registry import ParleyApp


class CredentialsConfig(ParleyApp):
    credential_link = "requests.link_for"
    credential_lender = "lending.lend"
    sweeps = ["requests.erase_task_credentials"]
