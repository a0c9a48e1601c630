from parley.registry import ParleyApp


class TeamsConfig(ParleyApp):
    label = "chats_teams"
    verbose_name = "Microsoft Teams"
    chat_platforms = ["platform.Teams"]
