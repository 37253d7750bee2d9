"""A real S3 server for tests and benchmarks: moto's, a process of its own on loopback that keeps objects in memory."""

import http.client
import importlib.util
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.server import free_port

MISSING = next((name for name in ("obstore", "moto", "flask_cors") if importlib.util.find_spec(name) is None), None)
"""A package without which no test can talk to the server; None if all are there."""

BUCKET = "books"
_KEY, SECRET = "reader", "not-a-real-secret"
_PATIENCE = 30.0


class S3Server:
    """A server process with one bucket. `put` and `delete` are those of another client than the library's: boto3's."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._log, self._secret = folder / "s3.log", folder / "secret"
        self._process: subprocess.Popen[bytes] | None = None
        self._client: Any = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage(self) -> dict[str, str]:
        """The options of a FileSpout that reads this server; Spark's workers read the file with the secret too."""
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": _KEY,
            "secret_access_key": f"file:{self._secret}",
        }

    def start(self) -> Self:
        """Start the server, make its bucket, and return when it answers."""
        self._secret.write_text(f"{SECRET}\n")
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"the S3 server did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)
        import boto3  # brought by moto

        self._client = boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name="us-east-1",
            aws_access_key_id=_KEY,
            aws_secret_access_key=SECRET,
        )
        self._client.create_bucket(Bucket=BUCKET)
        return self

    def _answers(self) -> bool:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/moto-api/")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()

    # --- what stands in the bucket --------------------------------------------------------------------------------

    def put(self, key: str, content: bytes) -> None:
        """Write an object anew, as a whole."""
        self._client.put_object(Bucket=BUCKET, Key=key, Body=content)

    def delete(self, key: str) -> None:
        self._client.delete_object(Bucket=BUCKET, Key=key)

    def log_lines(self) -> list[str]:
        """Return a line for each request so far."""
        return self._log.read_text().splitlines()

    def requests(self) -> Counter[str]:
        """Count the requests so far: ``list``, and the methods of those that name an object (``GET``, ``HEAD``)."""
        counts = Counter[str]()
        for line in self.log_lines():
            _, quote, request = line.partition('"')
            method, _, rest = request.partition(" ")
            if quote and rest.startswith(f"/{BUCKET}"):
                counts["list" if "list-type=2" in rest else method] += 1
        return counts

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
