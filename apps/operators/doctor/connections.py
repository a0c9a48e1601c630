"""Checks of what Parley connects to: broker, channel layer, mail server, language model; and of what it refuses."""

from __future__ import annotations

import asyncio
import smtplib
import time
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import redis
from celery import current_app
from django.conf import settings
from django.core import mail
from kombu import Queue
from kombu.exceptions import OperationalError

from apps.installation import current
from apps.installation.model_providers import Provider
from apps.installation.models import ModelConnection
from apps.model_agents import checks
from apps.notifications.models import Channel
from apps.operators.doctor.examination import Finding, Patient, describe, ok, problem, warning
from parley import outbound

ANSWER_SECONDS = 5.0
LOOPBACK, METADATA = "http://127.0.0.1:1/", "http://169.254.169.254/latest/meta-data/"


def broker(_: Patient) -> Finding:
    """Publish a message to a queue of its own, and get it back."""
    url = settings.CELERY_BROKER_URL
    if url.startswith("memory://"):
        return ok("In memory, inside the server's process.")
    sent, name = uuid.uuid4().hex, f"{settings.INSTALLATION}.doctor.{uuid.uuid4().hex[:8]}"
    try:
        with current_app.connection_for_write(connect_timeout=ANSWER_SECONDS) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=ANSWER_SECONDS)
            came = _round_trip(connection, name, sent)
    except (OperationalError, OSError) as error:
        advice = "Check CELERY_BROKER_URL: host, port, user, password and virtual host; and that the broker runs."
        return problem(f"{_place(url)} cannot be reached. {describe(error)}", advice)
    if came != sent:
        return problem(f"A message to {_place(url)} did not come back.", "Look at the broker's log and its disk alarm.")
    return ok(f"A message to {_place(url)} came back.")


def _round_trip(connection: Any, name: str, sent: str) -> object:
    """What comes out of the queue; None after ANSWER_SECONDS."""
    queue = Queue(name, expires=60, channel=connection.default_channel)
    queue.declare()
    try:
        connection.Producer().publish(sent, routing_key=name)
        deadline = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < deadline:
            if (message := queue.get(no_ack=True)) is not None:
                return message.payload
            time.sleep(0.05)
        return None
    finally:
        queue.delete()


def channel_layer(_: Patient) -> Finding:
    """Publish a message to a channel, and receive it."""
    url = settings.CHANNEL_LAYER_URL
    if url.startswith("memory://"):
        return ok("In memory, inside the server's process.")
    try:
        came = _published(url)
    except (redis.RedisError, OSError) as error:
        advice = "Check CHANNEL_LAYER_URL: host, port and password; and that Redis runs."
        return problem(f"{_place(url)} cannot be reached. {describe(error)}", advice)
    if not came:
        return problem(
            f"A message to {_place(url)} did not come back.", "Look whether Redis allows PUBLISH and SUBSCRIBE."
        )
    return ok(f"A message to {_place(url)} came back.")


def _published(url: str) -> bool:
    """Does a message come back within ANSWER_SECONDS?"""
    name = f"{settings.INSTALLATION}.doctor.{uuid.uuid4().hex[:8]}"
    server: Any = redis.Redis.from_url(url, socket_timeout=ANSWER_SECONDS, socket_connect_timeout=ANSWER_SECONDS)
    with server, server.pubsub(ignore_subscribe_messages=True) as channel:
        channel.subscribe(name)
        channel.get_message(timeout=ANSWER_SECONDS)  # that it listens
        server.publish(name, "doctor")
        return channel.get_message(timeout=ANSWER_SECONDS) is not None


def _place(url: str) -> str:
    """Without user and password."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}" + (f":{parts.port}" if parts.port else "")


def mail_server(patient: Patient) -> Finding:
    """Connect and sign in; send a message only if asked to."""
    if not (settings.EMAIL_URL or settings.ADMINS or patient.test_email):
        return ok("EMAIL_URL is not set: nobody gets mail about budgets or errors.")
    options = settings.MAILERS["default"].get("OPTIONS", {})
    place = f"{options.get('host')}:{options.get('port')}"
    try:
        with mail.mailers.default as server:
            if patient.test_email:
                subject, text = "A test from Parley", f"{patient.url} can send mail."
                server.send_messages([mail.EmailMessage(subject, text, to=[patient.test_email])])
    except (smtplib.SMTPException, OSError) as error:
        advice = "Check EMAIL_URL: smtp+tls://USER:PASSWORD@HOST:587, or smtp+ssl://…:465; and EMAIL_FROM."
        return problem(f"{place} does not take mail. {describe(error)}", advice)
    return ok(f"{place} took a message to {patient.test_email}." if patient.test_email else f"{place} lets Parley in.")


def letters(_: Patient) -> Finding:
    """Those that people chose to get."""
    people = Channel.objects.filter(type=Channel.Type.MAIL, is_on=True).count()
    if people and not settings.EMAIL_URL:
        advice = "Set EMAIL_URL, such as smtp+tls://USER:PASSWORD@HOST:587. Their letters are given up after a day."
        return warning(f"{people} people chose to be told by e-mail, and there is no mail server.", advice)
    return ok(f"{people} people are told by e-mail.")


def language_model(_: Patient) -> Finding:
    """Ask the default model for a word."""
    endpoint = current.snapshot().default
    if not endpoint.is_usable:
        return ok("None is connected. Agents without code need one.")
    provider = ModelConnection.objects.filter(slug=endpoint.slug).values_list("provider", flat=True).first() or ""
    asked = replace(endpoint, base_url=endpoint.base_url or Provider.OPENAI.preset.base_url)
    found = asyncio.run(checks.check(asked, provider))
    if found.is_ok:
        return ok(found.sentence)
    connection = f"the connection {endpoint.name} in the settings, under Language models"
    where = connection if endpoint.slug else "LLM_MODEL, LLM_BASE_URL and LLM_API_KEY"
    return problem(found.sentence, f"Check {where}.")


def outgoing_calls(_: Patient) -> Finding:
    """Are this machine and the cloud's metadata refused to agents and webhooks?"""
    if _may_call(METADATA):
        return problem("Metadata of the cloud can be called.", "Remove 169.254.169.254 from OUTBOUND_ALLOW.")
    if _may_call(LOOPBACK):
        advice = "Allow one host and port in OUTBOUND_ALLOW or under Private addresses, not all of this machine."
        return warning("Whoever registers an agent can make Parley call every port of this machine.", advice)
    return ok("Calls to this machine and to cloud metadata are refused.")


def _may_call(url: str) -> bool:
    try:
        outbound.guard().check(url)
    except outbound.Forbidden:
        return False
    return True
