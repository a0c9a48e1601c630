"""Chat channels: people talk to agents where they already are, such as Slack, Telegram or e-mail.

A folder for each platform; each is an app that can be left out. The core is the same for all: `receiving` records what
comes in, `acting` does it as the person who wrote it, and `answering` posts what agents answer.
"""
