from parley.registry import ParleyApp


class TelegramConfig(ParleyApp):
    label = "chats_telegram"
    verbose_name = "Telegram"
    chat_platforms = ["platform.Telegram"]
