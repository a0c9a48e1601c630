from parley.registry import ParleyApp


class SlackConfig(ParleyApp):
    label = "chats_slack"
    verbose_name = "Slack"
    chat_platforms = ["platform.Slack"]
