"""Encrypted files: AES-256-GCM in chunks, so that a file of any size is read and written with little memory.

A file is `MAGIC`, a line of JSON that says how the key is derived, and chunks of `CHUNK_BYTES` with their tags. A nonce
is the chunk's number and whether it is the last, and the beginning of the file is authenticated with each chunk. So
changed, moved, missing and added chunks are detected (the STREAM construction, https://eprint.iacr.org/2015/189).
"""

from __future__ import annotations

import base64
import io
import json
import secrets
from pathlib import Path
from typing import IO, Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

MAGIC = b"parley sealed backup 1\n"
CHUNK_BYTES = 1024**2
TAG_BYTES = 16
MAX_HEAD_BYTES = 1000
SCRYPT_COST = 2**17  # 128 MB of memory, half a second
MAX_SCRYPT_COST = 2**20  # that a file may ask for
MIN_SECRET_BYTES = {"scrypt": 8, "hkdf": 32}


class CannotOpen(Exception):
    """The secret does not open the file, or the file was changed or cut off; the message says which."""


class Secret:
    """What a file is encrypted with: a passphrase, or the content of a key file. Raises CannotOpen for a weak one."""

    def __init__(self, content: bytes, *, is_passphrase: bool) -> None:
        self._content, self.kind = content, "scrypt" if is_passphrase else "hkdf"
        if len(content) < (least := MIN_SECRET_BYTES[self.kind]):
            name = "passphrase" if is_passphrase else "key"
            raise CannotOpen(f"The {name} must have at least {least} bytes.")

    @classmethod
    def read(cls, path: Path, *, is_passphrase: bool) -> Secret:
        """The secret in a file. The line break at its end is not part of it. Raises CannotOpen."""
        try:
            return cls(path.read_bytes().rstrip(b"\r\n"), is_passphrase=is_passphrase)
        except OSError as error:
            raise CannotOpen(f"{path} cannot be read: {error.strerror}.") from error

    def cipher(self, head: dict[str, Any]) -> AESGCM:
        """The cipher of one file, by the JSON of its beginning."""
        salt = base64.b64decode(head["salt"])
        if self.kind == "scrypt":
            return AESGCM(Scrypt(salt=salt, length=32, n=head["n"], r=8, p=1).derive(self._content))
        return AESGCM(HKDF(SHA256(), 32, salt, b"parley backup").derive(self._content))


class SealedWriter(io.RawIOBase):
    """Encrypts what is written into `out`, which stays open. Only `finish` makes the file complete."""

    def __init__(self, out: IO[bytes], secret: Secret) -> None:
        head: dict[str, Any] = {"kdf": secret.kind, "salt": base64.b64encode(secrets.token_bytes(16)).decode()}
        if secret.kind == "scrypt":
            head["n"] = SCRYPT_COST
        self._out, self._waiting, self._number = out, bytearray(), 0
        self._head = MAGIC + json.dumps(head).encode() + b"\n"
        self._cipher = secret.cipher(head)
        out.write(self._head)

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._waiting += content
        while len(self._waiting) > CHUNK_BYTES:  # a full one waits, because it may be the last
            self._seal(bytes(self._waiting[:CHUNK_BYTES]), is_last=False)
            del self._waiting[:CHUNK_BYTES]
        return len(content)

    def finish(self) -> None:
        """Write the last chunk, without which the file cannot be opened."""
        self._seal(bytes(self._waiting), is_last=True)

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        self._out.write(self._cipher.encrypt(_nonce(self._number, is_last), chunk, self._head))
        self._number += 1


class SealedReader(io.RawIOBase):
    """Decrypts a file. Raises CannotOpen at the first byte that is not what was written, or at an early end."""

    def __init__(self, file: IO[bytes], secret: Secret) -> None:
        self._head = file.readline(MAX_HEAD_BYTES) + file.readline(MAX_HEAD_BYTES)
        head = _read_head(self._head)
        if head["kdf"] != secret.kind:
            needed = "a passphrase" if head["kdf"] == "scrypt" else "a key file"
            raise CannotOpen(f"This file was encrypted with {needed}.")
        self._cipher = secret.cipher(head)
        self._file, self._number, self._clear = file, 0, memoryview(b"")
        self._next = file.read(CHUNK_BYTES + TAG_BYTES)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._clear and self._next:
            self._clear = memoryview(self._open_next())
        size = min(len(buffer), len(self._clear))
        buffer[:size], self._clear = self._clear[:size], self._clear[size:]
        return size

    def _open_next(self) -> bytes:
        sealed, self._next = self._next, self._file.read(CHUNK_BYTES + TAG_BYTES)
        try:
            clear = self._cipher.decrypt(_nonce(self._number, not self._next), sealed, self._head)
        except InvalidTag as error:
            if self._number == 0:
                raise CannotOpen("The passphrase or key is wrong, or the file was changed or cut off.") from error
            at = self._number * CHUNK_BYTES
            raise CannotOpen(f"The file was changed or cut off after {at:,} bytes of its content.") from error
        self._number += 1
        return clear


def is_sealed(file: io.BufferedReader) -> bool:
    """Does the file begin as an encrypted one? Its position stays."""
    return file.peek(len(MAGIC)).startswith(MAGIC)


def _read_head(text: bytes) -> dict[str, Any]:
    try:
        head: dict[str, Any] = json.loads(text.removeprefix(MAGIC))
        is_known = head["kdf"] == "hkdf" or (head["kdf"] == "scrypt" and 2**14 <= head["n"] <= MAX_SCRYPT_COST)
        base64.b64decode(head["salt"], validate=True)
    except (ValueError, LookupError, TypeError) as error:
        raise CannotOpen("The beginning of the file was changed.") from error
    if not is_known:
        raise CannotOpen("The file asks for a key that this version cannot derive.")
    return head


def _nonce(number: int, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])
