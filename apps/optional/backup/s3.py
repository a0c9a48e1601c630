"""Backups in S3-compatible storage. Programs that speak to it find its address and keys as AWS's own tools do."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from apps.optional.backup.container import BadBackup
from apps.optional.backup.places import S3, Output
from parley.outbound.trust import chosen_authorities

PART_BYTES = 64 * 1024**2  # of equal size, as some storages want them; S3 takes 10,000 of a file: 625 GiB
READ_BYTES = 1024**2
CONFIG = Config(
    retries={"mode": "standard"},
    connect_timeout=20,
    read_timeout=60,
    # Other sums than Content-MD5 are unknown to many storages that are not AWS's.
    request_checksum_calculation="when_required",
    response_checksum_validation="when_required",
)


@dataclass(frozen=True, slots=True)
class Bucket:
    """`folder` ends in a slash, or is empty."""

    client: Any
    bucket: str
    folder: str

    @classmethod
    def at(cls, path: str) -> Bucket:
        """Of `bucket/folder`. Raises BadBackup."""
        bucket, _, folder = path.partition("/")
        if not bucket or "@" in bucket:
            raise BadBackup(f"Write {S3}BUCKET/FOLDER. Keys are in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
        try:
            client = boto3.session.Session().client("s3", config=CONFIG, verify=chosen_authorities() or None)
        except (BotoCoreError, ValueError) as error:
            raise BadBackup(f"The storage's settings are wrong: {error}") from error
        return cls(client, bucket, f"{folder}/" if folder else "")

    @property
    def label(self) -> str:
        return f"{S3}{self.bucket}/{self.folder}".rstrip("/")

    def check_free(self, name: str) -> None:
        if name in self.sizes():
            raise BadBackup(f"{self.label}/{name} exists. Choose another name, or delete it first.")

    @contextmanager
    def writing(self, name: str) -> Iterator[Output]:
        """The storage compares each part with its MD5. The object exists once all parts are there."""
        with self.refusing():
            upload = _Upload(self, self._named(name))
        try:
            yield upload
            upload.finish()
        except BaseException:
            upload.abort()
            raise
        with self.refusing():
            size = self.client.head_object(**self._named(name))["ContentLength"]
        if size != upload.bytes:
            self.delete(name)
            raise BadBackup(f"{self.label}/{name} has {size:,} bytes, and should have {upload.bytes:,}.")

    def open(self, name: str) -> io.BufferedReader:
        with self.refusing():
            body = self.client.get_object(**self._named(name))["Body"]
        return io.BufferedReader(_Download(self, body), READ_BYTES)

    def sizes(self) -> dict[str, int]:
        with self.refusing():
            pages = self.client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=self.folder, Delimiter="/"
            )
            found = [one for page in pages for one in page.get("Contents", ())]
        return {one["Key"].removeprefix(self.folder): one["Size"] for one in found}

    def delete(self, name: str) -> None:
        with self.refusing():
            self.client.delete_object(**self._named(name))

    def discard(self, name: str) -> None:
        with self.refusing():
            found = self.client.list_multipart_uploads(Bucket=self.bucket, Prefix=self.folder + name)
            for one in found.get("Uploads", ()):
                if one["Key"] == self.folder + name:
                    self.client.abort_multipart_upload(**self._named(name), UploadId=one["UploadId"])

    def _named(self, name: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.folder + name}

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Raises BadBackup for what the storage or the way to it does not allow."""
        try:
            yield
        except NoCredentialsError as error:
            raise BadBackup(
                f"{self.label} needs keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            ) from error
        except (BotoCoreError, ClientError, OSError) as error:
            raise BadBackup(f"{self.label}: {error}") from error


class _Upload:
    """An object in parts, of which one is in memory."""

    def __init__(self, bucket: Bucket, named: dict[str, str]) -> None:
        self._bucket, self._client, self._waiting = bucket, bucket.client, bytearray()
        self._which = {**named, "UploadId": self._client.create_multipart_upload(**named)["UploadId"]}
        self._parts: list[dict[str, Any]] = []
        self.bytes = 0

    def write(self, content: Any) -> int:
        self._waiting += content
        self.bytes += len(content)
        while len(self._waiting) >= PART_BYTES:
            self._send(bytes(self._waiting[:PART_BYTES]))
            del self._waiting[:PART_BYTES]
        return len(content)

    def _send(self, part: bytes) -> None:
        number, md5 = len(self._parts) + 1, hashlib.md5(part, usedforsecurity=False).digest()
        with self._bucket.refusing():
            sent = self._client.upload_part(
                **self._which, PartNumber=number, Body=part, ContentMD5=base64.b64encode(md5).decode()
            )
        self._parts.append({"PartNumber": number, "ETag": sent["ETag"]})

    def finish(self) -> None:
        if self._waiting or not self._parts:
            self._send(bytes(self._waiting))
        with self._bucket.refusing():
            self._client.complete_multipart_upload(**self._which, MultipartUpload={"Parts": self._parts})

    def abort(self) -> None:
        with suppress(BotoCoreError, ClientError, OSError):  # such as a storage that is away
            self._client.abort_multipart_upload(**self._which)


class _Download(io.RawIOBase):
    def __init__(self, bucket: Bucket, body: Any) -> None:
        self._bucket, self._body = bucket, body

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with self._bucket.refusing():
            some = self._body.read(len(buffer))
        buffer[: len(some)] = some
        return len(some)

    def close(self) -> None:
        self._body.close()
        super().close()
