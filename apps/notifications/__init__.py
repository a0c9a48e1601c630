"""How people are told that work ended, failed or asks: by mail, browser, Slack or a webhook.

`listening` notes what happened, `choices` says who is told where, `wording` in which words, and `sending` sends it.
"""
