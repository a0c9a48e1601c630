from parley.registry import ParleyApp


class DiscordConfig(ParleyApp):
    label = "chats_discord"
    verbose_name = "Discord"
    chat_platforms = ["platform.Discord"]
