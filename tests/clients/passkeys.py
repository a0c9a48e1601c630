"""A passkey in software (WebAuthn 3 §6): it makes and uses one credential, as a browser and a device do together."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from fido2.cose import ES256
from fido2.utils import websafe_decode, websafe_encode
from fido2.webauthn import AttestationObject, AttestedCredentialData, AuthenticatorData, CollectedClientData

PRESENT_AND_VERIFIED = AuthenticatorData.FLAG.UP | AuthenticatorData.FLAG.UV


class Passkey:
    def __init__(self, origin: str = "http://testserver", rp: str = "testserver") -> None:
        self.origin, self._rp = origin, hashlib.sha256(rp.encode()).digest()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self.id, self.user_handle = secrets.token_bytes(16), b""

    def created(self, options: dict[str, Any]) -> str:
        """The answer to the options of a registration, as JSON."""
        chosen = options["publicKey"]
        self.user_handle = websafe_decode(chosen["user"]["id"])
        credential = AttestedCredentialData.create(
            b"\0" * 16, self.id, ES256.from_cryptography_key(self._key.public_key())
        )
        flags = PRESENT_AND_VERIFIED | AuthenticatorData.FLAG.AT
        data = AuthenticatorData.create(self._rp, flags, 0, credential)
        attestation = AttestationObject.create("none", data, {})
        client = self._client_data("webauthn.create", chosen["challenge"])
        answer = {"clientDataJSON": websafe_encode(client), "attestationObject": websafe_encode(attestation)}
        return self._answer(answer, {"credProps": {"rk": True}})

    def used(self, options: dict[str, Any]) -> str:
        """The answer to the options of a sign-in, as JSON."""
        client = self._client_data("webauthn.get", options["publicKey"]["challenge"])
        data = AuthenticatorData.create(self._rp, PRESENT_AND_VERIFIED, 1)
        signature = self._key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        answer = {"clientDataJSON": client, "authenticatorData": data, "signature": signature}
        written = {name: websafe_encode(value) for name, value in answer.items()}
        return self._answer({**written, "userHandle": websafe_encode(self.user_handle)}, {})

    def _client_data(self, kind: str, challenge: str) -> CollectedClientData:
        return CollectedClientData.create(type=kind, challenge=challenge, origin=self.origin)

    def _answer(self, response: dict[str, str], extensions: dict[str, Any]) -> str:
        own = websafe_encode(self.id)
        kind = {"id": own, "rawId": own, "type": "public-key", "authenticatorAttachment": "platform"}
        return json.dumps({**kind, "response": response, "clientExtensionResults": extensions})
