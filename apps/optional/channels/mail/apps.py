from parley.registry import ParleyApp


class MailConfig(ParleyApp):
    label = "chats_mail"
    verbose_name = "E-mail"
    chat_platforms = ["platform.Mail"]
