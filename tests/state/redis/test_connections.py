"""Ways to the server: TLS, a database of its own, a password, a socket file."""

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from tests.state.redis.states import LEASE, contents, opened, started, update
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from trident.base.errors import StateError, StateUnavailableError
from trident.base.redis_address import Address


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    """A key and a certificate for 127.0.0.1, signed by itself."""
    if shutil.which("openssl") is None:
        pytest.skip("no openssl on this machine to make a certificate with")
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        + ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
    )
    return key, cert


def test_rediss_speaks_tls_and_demands_a_certificate_it_can_trust(
    shared_redis: RedisServer, certificate: tuple[Path, Path]
) -> None:
    key, cert = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)
    with Proxy(shared_redis.port, context) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}/0"
        with started(f"{url}?ssl_ca_certs={cert}") as store:
            store.apply(LEASE, update(1, {n: n for n in range(3_000)}))
            assert contents(store, 1) == {f"w{n}": n for n in range(3_000)}
        with opened(url) as store, pytest.raises(StateUnavailableError, match="does not answer.*(?i:certificate)"):
            store.report()


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("ssl_ca_certs=/nowhere.pem", "ssl_ca_certs=/nowhere.pem in the url: there is no such file"),
        ("foo=bar", "the url has an option 'foo' that redis-py does not know"),
    ],
)
def test_what_a_url_names_and_is_not_there_is_no_matter_of_the_server(query: str, message: str) -> None:
    with opened(f"rediss://127.0.0.1:1/0?{query}") as store, pytest.raises(StateError, match=message):
        store.report()


def test_a_server_may_ask_for_a_certificate_too(shared_redis: RedisServer, certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(cert))
    context.load_cert_chain(cert, key)
    context.verify_mode = ssl.CERT_REQUIRED
    with Proxy(shared_redis.port, context) as proxy:
        url = f"rediss://127.0.0.1:{proxy.port}/0?ssl_ca_certs={cert}"
        with started(f"{url}&ssl_certfile={cert}&ssl_keyfile={key}") as store:
            store.apply(LEASE, update(1, {1: 1}))
            assert contents(store, 1) == {"w1": 1}
        with opened(url) as store, pytest.raises(StateUnavailableError):
            store.report()


def test_a_url_names_a_database(shared_redis: RedisServer) -> None:
    with started(shared_redis.url.removesuffix("/0") + "/3") as third, opened(shared_redis.url) as first:
        third.apply(LEASE, update(1, {1: 1}))
        assert contents(third, 1) == {"w1": 1}
        assert first.report().absent
    assert shared_redis.client.dbsize() == 0


def test_a_socket_file_is_a_way_too(tmp_path: Path) -> None:
    socket = tmp_path / "s"
    with (
        RedisServer(tmp_path / "redis", "none", "--unixsocket", str(socket)),
        started(f"unix://{socket}?db=0") as store,
    ):
        store.apply(LEASE, update(1, {1: 1}))
        assert contents(store, 1) == {"w1": 1}


def test_an_address_shows_no_password() -> None:
    address = Address("redis://me:secret@server:6379/2", 1.0, 1.0)
    assert "secret" not in f"{address!r} {address} {[address]}" and "server:6379" in repr(address)
