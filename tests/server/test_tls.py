"""TLS: a server with a certificate, and one that asks its clients for theirs."""

import asyncio
import contextlib
import ssl
import subprocess
import warnings
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.server.conftest import Serving
from tests.server.raw import connect
from trident import AsyncDRPCClient, DRPCClient
from trident.cli.main import main
from trident.errors import ServerUnavailableError, TopologyError
from trident.server.tls import TLS
from trident_client.conversation import Patience

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1")


class Papers:
    """Certificates in a folder: an authority of the server's, one of the clients', a stranger, and two that are old."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for authority in ("ca", "clients", "others"):
            files = self._files(authority, "-keyout", "-out")
            # Python 3.13 and later reject an authority without this extension.
            usage = ("-addext", "keyUsage=critical,keyCertSign,cRLSign")
            self._openssl("-x509", *_CURVE, *files, "-subj", f"/CN={authority}", *usage)
        self.server = self._signed("server", "ca", "subjectAltName=IP:127.0.0.1")
        self.client = self._signed("client", "clients", "extendedKeyUsage=clientAuth")
        self.stranger = self._signed("stranger", "others", "extendedKeyUsage=clientAuth")
        self.old_server = self._expired("old-server", "ca", "subjectAltName=IP:127.0.0.1")
        self.old_client = self._expired("old-client", "clients", "extendedKeyUsage=clientAuth")
        self.ca, self.clients = str(folder / "ca.pem"), str(folder / "clients.pem")

    def _signed(self, name: str, authority: str, extension: str) -> tuple[str, str]:
        """Return the files of a certificate and its key."""
        signer = self._files(authority, "-CAkey", "-CA")
        self._openssl(
            "-x509",
            *_CURVE,
            *self._files(name, "-keyout", "-out"),
            *signer,
            "-subj",
            f"/CN={name}",
            "-addext",
            extension,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        )
        return str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key")

    def _expired(self, name: str, authority: str, extension: str) -> tuple[str, str]:
        """Return the files of a certificate that ended yesterday, and of its key."""
        asked, wanted = self._folder / f"{name}.csr", self._folder / f"{name}.extensions"
        made, key = str(self._folder / f"{name}.pem"), str(self._folder / f"{name}.key")
        wanted.write_text(extension)
        self._openssl("-new", *_CURVE, "-keyout", key, "-out", str(asked), "-subj", f"/CN={name}")
        signer = (*self._files(authority, "-CAkey", "-CA"), "-CAcreateserial", "-extfile", str(wanted))
        command = ["openssl", "x509", "-req", "-in", str(asked), "-days", "-1", "-out", made, *signer]
        subprocess.run(command, check=True, capture_output=True, text=True)
        return made, key

    def _files(self, name: str, key: str, cert: str) -> tuple[str, ...]:
        return key, str(self._folder / f"{name}.key"), cert, str(self._folder / f"{name}.pem")

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", "req", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


def test_a_server_with_a_certificate_answers_those_who_trust_it(
    serving: Serving, papers: Papers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving.running.serve(tls=TLS(*papers.server)) as server:
        assert server.url.startswith("https://127.0.0.1:")
        with DRPCClient(server.url, ca=papers.ca) as client:
            assert client.execute("count", "dog") == [("dog", 2)]

        def wait(patience: object, error: Exception) -> float:
            raise AssertionError("a certificate that is not trusted does not become trusted by waiting")

        monkeypatch.setattr(Patience, "next", wait)
        refused = r"is not trusted: .*CERTIFICATE_VERIFY_FAILED.*: ca='ca.pem', or --ca in a shell"
        with DRPCClient(server.url) as client, pytest.raises(ServerUnavailableError, match=refused):
            client.execute("count", "dog")

        async def ask() -> None:
            async with AsyncDRPCClient(server.url) as client:
                await client.execute("count", "dog")

        with pytest.raises(ServerUnavailableError, match=refused):
            asyncio.run(ask())


def test_a_certificate_that_has_expired_is_not_trusted_and_what_it_needs_is_told(
    serving: Serving, papers: Papers
) -> None:
    with (
        serving.running.serve(tls=TLS(*papers.old_server)) as server,
        DRPCClient(server.url, ca=papers.ca) as client,
        pytest.raises(ServerUnavailableError, match=r"certificate has expired.*\. The server needs a new certificate$"),
    ):
        client.execute("count", "dog")
    with serving.running.serve(tls=TLS(*papers.server)) as server:
        elsewhere = server.url.replace("127.0.0.1", "localhost")
        with (
            DRPCClient(elsewhere, ca=papers.ca) as client,
            pytest.raises(
                ServerUnavailableError, match=r"not valid for 'localhost'.*\. Use a host name or address that"
            ),
        ):
            client.execute("count", "dog")


def test_who_has_a_certificate_of_the_clients_authority_needs_no_token(serving: Serving, papers: Papers) -> None:
    tls = TLS(*papers.server, clientCA=papers.clients)
    # Other machines may ask: the certificates say who they are.
    with serving.running.serve(host="0.0.0.0", tls=tls) as server:
        url = server.url.replace("0.0.0.0", "127.0.0.1")
        with DRPCClient(url, ca=papers.ca, cert=papers.client) as client:
            assert client.execute("count", "dog") == [("dog", 2)]

        async def ask() -> int:
            async with AsyncDRPCClient(url, ca=papers.ca, cert=papers.client) as client:
                return int(await client.get("counts", "cat"))

        assert asyncio.run(ask()) == 1
        cert, key = papers.client
        asked = ["query", url, "count", "dog", "--ca", papers.ca, "--cert", cert, "--key", key]
        assert CliRunner().invoke(main, asked).output == '{"word": "dog", "count": 2}\n'
        for shown in (None, papers.stranger, papers.old_client):
            with (
                DRPCClient(url, ca=papers.ca, cert=shown, timeout=0.5) as client,
                pytest.raises(ServerUnavailableError, match="does not answer"),
            ):
                client.execute("count", "dog")


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1, ssl.TLSVersion.TLSv1_2])
def test_only_present_versions_of_tls_are_spoken(serving: Serving, papers: Papers, newest: ssl.TLSVersion) -> None:
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.load_verify_locations(papers.ca)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version = old.maximum_version = newest
    refused = contextlib.nullcontext() if newest is ssl.TLSVersion.TLSv1_2 else pytest.raises((ssl.SSLError, OSError))
    with (
        serving.running.serve(tls=TLS(*papers.server)) as server,
        connect(server.url) as plain,
        refused,
        old.wrap_socket(plain, server_hostname="127.0.0.1") as spoken,
    ):
        spoken.sendall(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n")
        assert spoken.recv(12) == b"HTTP/1.1 200"


def test_a_certificate_of_the_server_alone_lets_no_other_machine_ask(serving: Serving, papers: Papers) -> None:
    with pytest.raises(TopologyError, match=r"other machines could read every state.*tls=TLS\(cert, key, clientCA\)"):
        serving.running.serve(host="0.0.0.0", tls=TLS(*papers.server))


def test_files_that_are_none_are_refused_at_the_start(serving: Serving, papers: Papers, tmp_path: Path) -> None:
    cert, key = papers.server
    with pytest.raises(TopologyError, match=r"cert='nothing\.pem' .*no such file"):
        serving.running.serve(tls=TLS("nothing.pem", key))
    with pytest.raises(TopologyError, match="key values mismatch"):
        serving.running.serve(tls=TLS(cert, papers.client[1]))
    (tmp_path / "empty.pem").touch()
    with pytest.raises(TopologyError, match=r"clientCA='.*empty\.pem'"):
        serving.running.serve(tls=TLS(cert, key, clientCA=tmp_path / "empty.pem"))
    with pytest.raises(TopologyError, match="expected PEM files"):
        DRPCClient("https://127.0.0.1:1", ca="nothing.pem")


def test_the_programs_say_which_files_go_together() -> None:
    told = CliRunner().invoke(main, ["serve", "a:b", "--tls-cert", "server.pem"])
    assert told.exit_code == 2 and "needs both --tls-cert and --tls-key" in told.output
    told = CliRunner().invoke(main, ["query", "https://127.0.0.1:1", "--cert", "client.pem"])
    assert told.exit_code == 2 and "needs both --cert and --key" in told.output
