"""Options of Kafka's clients: their secrets, and their translation for the Java client in Spark's reader.

Users write them once, under the names of librdkafka, the library beneath confluent-kafka. A value may be ``env:NAME``
or ``file:path``: then the environment variable or the file holds it, and no program has to hold a password.
"""

import re
from collections.abc import Callable, Mapping

from trident.base.errors import TopologyError
from trident.base.secret_references import SOURCES, read_secret, read_secret_file
from trident.base.short_texts import typed_brief

Option = str | int | float | bool

ALWAYS_OURS = {
    "bootstrap.servers": "bootstrapServers",
    "metadata.broker.list": "bootstrapServers",
    "enable.auto.commit": "",
    "enable.auto.offset.store": "",
    "enable.partition.eof": "",
}
_OURS = ALWAYS_OURS | {
    "isolation.level": "isolationLevel",
    "auto.offset.reset": "onDataLoss",
    "assign": "topics",
    "subscribe": "topics",
    "subscribePattern": "pattern",
    "startingOffsets": "startingOffsets",
    "endingOffsets": "maxOffsetsPerBatch",
    "failOnDataLoss": "onDataLoss",
    "includeHeaders": "",
    "group.id": "options={'group.id': ...}",
    "startingTimestamp": "startingOffsets",
    "startingOffsetsByTimestamp": "startingOffsets",
    "endingTimestamp": "maxOffsetsPerBatch",
    "endingOffsetsByTimestamp": "maxOffsetsPerBatch",
}
"""The options that a KafkaSpout sets in its clients and in Spark's reader, each with the parameter to use instead."""

_SECRET = re.compile(r"password|secret|jaas|token|key\.pem|ssl\.keystore\.key", re.IGNORECASE)

_LOGIN = "org.apache.kafka.common.security"
_LOGIN_MODULES = {"PLAIN": f"{_LOGIN}.plain.PlainLoginModule"} | dict.fromkeys(
    ("SCRAM-SHA-256", "SCRAM-SHA-512"), f"{_LOGIN}.scram.ScramLoginModule"
)
_TRANSLATED = frozenset(
    {"sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password", "security.protocol", "ssl.ca.location"}
    | {"ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem", "ssl.key.location", "ssl.key.pem"}
    | {"ssl.endpoint.identification.algorithm", "enable.ssl.certificate.verification", "log_level", "debug"}
    | {"group.id"}
)


def _refused(problem: str) -> TopologyError:
    return TopologyError(f"KafkaSpout: {problem}")


def check_options(
    name: str,
    options: Mapping[str, Option],
    owner: str = "the spout",
    ours: Mapping[str, str] = _OURS,
    error: Callable[[str], Exception] = _refused,
) -> None:
    """Raise ``error(message)`` unless `options` map texts to values and contain none of `ours`.

    `ours` are the options that the `owner` sets itself, each with the parameter to use instead.
    """
    if not isinstance(options, Mapping):
        raise error(
            f"{name}={typed_brief(options)}: expected a mapping, such as "
            f"{{'security.protocol': 'SASL_SSL', 'sasl.password': 'env:KAFKA_PASSWORD'}}"
        )
    lowered = {key.lower(): parameter for key, parameter in ours.items()}  # Spark's reader ignores upper and lower case
    for key, value in options.items():
        if not isinstance(key, str) or not isinstance(value, str | int | float | bool):
            raise error(f"{name}: expected names and values of options, got {key!r}: a {type(value).__name__}")
        parameter = lowered.get(key.lower().removeprefix("kafka."))
        if parameter is not None and (name, key) != ("options", "group.id"):
            way_out = f"; use {parameter}{'' if '=' in parameter else '='}" if parameter else ""
            raise error(f"{name}: {key!r} is set by {owner} itself{way_out}")


def shown(options: Mapping[str, Option]) -> dict[str, Option]:
    """Return options as messages show them, with stars instead of secrets.

    >>> shown({"sasl.username": "me", "sasl.password": "x", "ssl.key.password": "env:KEY"})
    {'sasl.username': 'me', 'sasl.password': '***', 'ssl.key.password': 'env:KEY'}
    """
    return {
        key: "***" if _SECRET.search(key) and not str(value).startswith(SOURCES) else value
        for key, value in options.items()
    }


def resolved(name: str, value: Option, error: Callable[[str], Exception] = _refused) -> Option:
    """Return an option's value; for ``env:NAME`` and ``file:path``, the content of the variable or the file.

    Raises ``error(message)`` if there is no such variable or file. The message never shows the content.

    >>> resolved("sasl.password", "env:NOT_SET_ANYWHERE")
    Traceback (most recent call last):
    trident_client.errors.TopologyError: KafkaSpout: sasl.password='env:NOT_SET_ANYWHERE': the environment variable \
NOT_SET_ANYWHERE is not set
    """
    return read_secret(name, value, error) if isinstance(value, str) else value


def client_options(
    servers: str, options: Mapping[str, Option], error: Callable[[str], Exception] = _refused
) -> dict[str, Option]:
    """Return the options of a client of confluent-kafka, with the values of secrets."""
    read = {name: resolved(name, value, error) for name, value in options.items()}
    return {
        "log_level": 2,
        "reconnect.backoff.max.ms": 1000,
        **read,
        "bootstrap.servers": str(resolved("bootstrapServers", servers, error)),
    }


def java_options(options: Mapping[str, Option]) -> dict[str, str]:
    """Return options of confluent-kafka as options of Spark's reader: Java's names, with a prefix.

    Certificates and keys are included as text, so that workers need no files. The Java client ignores options that only
    librdkafka knows.
    """
    java = {name: _java_value(value) for name, value in options.items() if name not in _TRANSLATED}
    java |= _sasl(options) | _tls(options)
    return {f"kafka.{name}": value for name, value in java.items()}


def _java_value(value: Option) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _sasl(options: Mapping[str, Option]) -> dict[str, str]:
    java: dict[str, str] = {}
    if "security.protocol" in options:
        java["security.protocol"] = str(options["security.protocol"]).upper()
    mechanism = options.get("sasl.mechanism", options.get("sasl.mechanisms"))
    if mechanism is not None:
        java["sasl.mechanism"] = str(mechanism)
    module = _LOGIN_MODULES.get(str(mechanism))
    if module is not None and "sasl.username" in options:
        user, password = (_quoted(str(options.get(f"sasl.{name}", ""))) for name in ("username", "password"))
        java["sasl.jaas.config"] = f"{module} required username={user} password={password};"
    return java


def _quoted(text: str) -> str:
    r"""Return a text as a value in a JAAS configuration.

    >>> print(_quoted('a"b\\c'))
    "a\"b\\c"
    """
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _tls(options: Mapping[str, Option]) -> dict[str, str]:
    java: dict[str, str] = {}
    authority, certificate, key = (_pem(options, name) for name in ("ca", "certificate", "key"))
    if authority:
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority}
    if certificate and key:
        java |= {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": certificate, "ssl.keystore.key": key}
    algorithm = options.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else str(algorithm)
    return java


def _pem(options: Mapping[str, Option], part: str) -> str:
    """Return a certificate or key in PEM, which `options` hold as text or as the path of a file; "" if missing."""
    text, path = options.get(f"ssl.{part}.pem"), options.get(f"ssl.{part}.location")
    if text is not None or path is None:
        return str(text or "")
    return read_secret_file(f"ssl.{part}.location", str(path), str(path), _refused)
