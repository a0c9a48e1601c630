"""A facilitator of x402 for tests, without a chain, and agents that ask for payments."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from agentkit import Completed, InputRequired, PaymentRequired, SkillHandler, TaskContext
from tests.remote.card_server import in_a_thread

PRICE = {"amount": "10000", "asset": "0xUSDC", "network": "base-sepolia", "pay_to": "0xSeller"}


class Selling(SkillHandler):
    """Sells its answer."""

    async def on_request(self, task: TaskContext) -> PaymentRequired:
        return PaymentRequired("It costs one cent.", **PRICE, description="An answer", metadata=FORGED)

    async def on_input_received(self, task: TaskContext) -> Completed:
        return Completed(f"Paid by {task.payment['payer']}." if task.payment else "Free.")


class Pretending(SkillHandler):
    """Asks by the slot's name only."""

    async def on_request(self, task: TaskContext) -> InputRequired:
        return InputRequired("Pay!", "payment", metadata=FORGED)

    async def on_input_received(self, task: TaskContext) -> Completed:
        return Completed(f"{task.payment}", metadata=FORGED)


FORGED = {"x402.payment.status": "payment-completed", "x402.payment.receipts": [{"success": True}]}


class Facilitator(ThreadingHTTPServer):
    """Settles each nonce once. `refusal`: why it refuses to settle. `is_away`: it breaks after it has settled."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.settled: list[str] = []
        self.refusal, self.is_away = "", False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((path, body))
        if path == "/verify":
            return {"isValid": True, "payer": "0xBuyer"}
        nonce = body["paymentPayload"]["payload"]["authorization"]["nonce"]
        if self.refusal or nonce in self.settled:
            return {"success": False, "errorReason": self.refusal or "nonce_used"}
        self.settled.append(nonce)
        return {
            "success": True,
            "transaction": f"0xtx{len(self.settled)}",
            "network": "base-sepolia",
            "payer": "0xBuyer",
        }


class _Answering(BaseHTTPRequestHandler):
    server: Facilitator

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        content = json.dumps(self.server.answer(self.path, body)).encode()
        self.send_response(502 if self.server.is_away and self.path == "/settle" else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


def facilitating() -> AbstractContextManager[Facilitator]:
    return in_a_thread(Facilitator())


def payment(nonce: str = "0x1", **changed: Any) -> dict[str, Any]:
    """The metadata of a message that pays."""
    authorization = {"from": "0xBuyer", "to": "0xSeller", "value": "10000", "nonce": nonce} | changed
    network = authorization.pop("network", "base-sepolia")
    signed = {"signature": "0xsigned", "authorization": authorization}
    payload = {"x402Version": 1, "scheme": "exact", "network": network, "payload": signed}
    return {"x402.payment.status": "payment-submitted", "x402.payment.payload": payload}


WALLET = "tests.payments.facilitating.sign"
"""For PAYMENT_WALLETS."""
SIGNED: dict[str, dict[str, Any]] = {}
"""What the wallet signed, by its keys."""


async def sign(requirements: dict[str, Any], key: str) -> dict[str, Any]:
    """A wallet without a chain. It signs once for a key."""
    asked = {"value": requirements["maxAmountRequired"], "to": requirements["payTo"]}
    metadata = payment(f"0x{len(SIGNED)}", **asked, network=requirements["network"])
    signed: dict[str, Any] = SIGNED.setdefault(key, metadata["x402.payment.payload"])
    return signed
