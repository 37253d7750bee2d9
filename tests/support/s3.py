"""A real S3 server for tests and benchmarks: S3Proxy, an artifact of Maven Central, which keeps objects in memory.

It checks signatures, conditions (``If-Match``), ranges and pages as S3 does. Unlike S3 it cannot hold an object ``a``
beside an object ``a/b``, and takes ``a//b`` for ``a/b``.
"""

import hashlib
import hmac
import http.client
import re
import subprocess
import time
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

import pytest

from tests.support.server import free_port
from tests.support.spark import SHORT_LIVED
from trident.demo.artifacts import first_fetched, java

SERVER = "org.gaul:s3proxy:4.1.0:jar-with-dependencies"
BUCKET = "books"
KEY, SECRET = "reader", "not-a-real-secret"
_REGION = "us-east-1"
_PATIENCE = 60.0
_REQUEST = re.compile(r"^request: .*\{([A-Z]+)@\w+ (\S+) HTTP/", re.MULTILINE)

_LOGGING = """<configuration><appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
<encoder><pattern>%msg%n</pattern></encoder></appender>
<logger name="org.gaul.s3proxy.S3ProxyHandler" level="DEBUG"/>
<root level="WARN"><appender-ref ref="OUT"/></root></configuration>"""


def out_of_reach() -> str:
    """Return why there is no server; "" if there is one."""
    return first_fetched([SERVER])[1]


class S3Server:
    """A server process with one bucket. `put` and `delete` are those of another client than the library's: its own."""

    def __init__(self, folder: Path, options: Sequence[str] = (SHORT_LIVED, "-Xmx512m")) -> None:
        if reason := out_of_reach():
            pytest.skip(reason)
        self.port = free_port()
        self._folder, self._options = folder, options
        self._log, self._secret = folder / "s3.log", folder / "secret"
        self._process: subprocess.Popen[bytes] | None = None
        self._connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage(self) -> dict[str, str]:
        """The options of a FileSpout that reads this server; Spark's workers read the file with the secret too."""
        return {
            "endpoint": self.endpoint,
            "region": _REGION,
            "access_key_id": KEY,
            "secret_access_key": f"file:{self._secret}",
        }

    @property
    def delta_storage(self) -> dict[str, str]:
        """The ``storageOptions`` of a Delta table in the bucket."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": _REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def start(self) -> Self:
        """Start the server, make its bucket, and return when it answers."""
        self._secret.write_text(f"{SECRET}\n")
        settings, logging = self._folder / "s3proxy.properties", self._folder / "logback.xml"
        logging.write_text(_LOGGING)
        options = {
            "s3proxy.endpoint": self.endpoint,
            "s3proxy.authorization": "aws-v4",
            "s3proxy.identity": KEY,
            "s3proxy.credential": SECRET,
            "jclouds.provider": "transient-nio2",
            "jclouds.identity": "any",
            "jclouds.credential": "any",
        }
        settings.write_text("".join(f"{name}={value}\n" for name, value in options.items()))
        (jar,) = first_fetched([SERVER])[0].glob("*.jar")
        command = [
            java(),
            *self._options,
            "-XX:+UseSerialGC",
            f"-Dlogback.configurationFile={logging}",
            "-jar",
            str(jar),
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [*command, "--properties", str(settings)],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop it
            )
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._ask("PUT")
                return self
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    self.stop()
                    raise RuntimeError(f"the S3 server did not start: {self._log.read_text()[-2000:]}") from None
                time.sleep(0.05)

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._connection.close()

    # --- what stands in the bucket --------------------------------------------------------------------------------

    def put(self, key: str, content: bytes) -> None:
        """Write an object anew, as a whole."""
        self._ask("PUT", key, content)

    def delete(self, key: str) -> None:
        self._ask("DELETE", key)

    def log_lines(self) -> list[str]:
        """Return a line for each request so far: its method and its URL."""
        return [" ".join(found) for found in _REQUEST.findall(self._log.read_text())]

    def requests(self) -> Counter[str]:
        """Count the requests so far: ``list``, and the methods of those that name an object (``GET``, ``HEAD``)."""
        counts = Counter[str]()
        for line in self.log_lines():
            counts["list" if "list-type=2" in line else line.partition(" ")[0]] += 1
        return counts

    def _ask(self, method: str, key: str = "", body: bytes = b"") -> None:
        """Send a request for the bucket, or for an object in it, with a signature (version 4)."""
        path = f"/{BUCKET}/{quote(key, safe='/-_.~')}" if key else f"/{BUCKET}"
        now, digest = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"), hashlib.sha256(body).hexdigest()
        headers = {"host": f"127.0.0.1:{self.port}", "x-amz-content-sha256": digest, "x-amz-date": now}
        signed = ";".join(headers)
        lines = [method, path, "", *(f"{name}:{value}" for name, value in headers.items()), "", signed, digest]
        scope = f"{now[:8]}/{_REGION}/s3/aws4_request"
        asked = hashlib.sha256("\n".join(lines).encode()).hexdigest()
        secret = f"AWS4{SECRET}".encode()
        for part in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{asked}"):
            secret = hmac.digest(secret, part.encode(), "sha256")
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={KEY}/{scope}, SignedHeaders={signed}, Signature={secret.hex()}"
        )
        try:
            status, said = self._answered(method, path, body, headers)
        except ConnectionError:  # the server closes connections that were idle for long; a closed one is opened again
            status, said = self._answered(method, path, body, headers)
        assert status < 300, f"{method} {path}: {status} {said!r}"

    def _answered(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            self._connection.request(method, path, body, headers)
            reply = self._connection.getresponse()
            return reply.status, reply.read()
        except OSError:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
