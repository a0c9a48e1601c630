"""E-mail: letters come in by a signed webhook, as the mail server or provider got them, and go out by EMAIL_URL."""
