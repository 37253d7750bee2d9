"""What users write: RedisMapState."""

import pickle
from typing import Any

import pytest

from tests.state.redis.states import IDENTITY, SHAPE
from tests.state.redis.storage import NoHome
from trident.base.redis_address import redacted
from trident_state.memory import MemoryMapState
from trident_state.redis import RedisMapState
from trident_state.state_shape import StateKind
from trident_state.store import StateFactory

URL = "rediss://me:secret@example.org:6380/2?ssl_cert_reqs=required&ssl_password=hidden"


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (RedisMapState.opaque, StateKind.OPAQUE),
        (RedisMapState.transactional, StateKind.TRANSACTIONAL),
        (RedisMapState.nonTransactional, StateKind.NON_TRANSACTIONAL),
    ],
)
def test_a_factory_is_frozen_equal_picklable_and_tells_no_secret(make: Any, kind: StateKind) -> None:
    factory = make(URL, prefix="app", buckets=64, groups=2, values="json")
    shown = (
        f"RedisMapState.{kind.value}('rediss://me:***@example.org:6380/2?ssl_cert_reqs=required&ssl_password=***', "
        f"prefix='app', buckets=64, groups=2, values='json')"
    )
    assert repr(factory) == str(factory) == shown
    assert (factory.kind, factory.survives) == (kind, "server")
    again = pickle.loads(pickle.dumps(factory))  # noqa: S301 (our own bytes)
    assert again == factory and hash(again) == hash(factory)
    with pytest.raises(AttributeError):
        factory.url = "redis://other"
    as_protocol: StateFactory = factory
    as_protocol.open(IDENTITY, SHAPE, NoHome()).close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"url": "http://:secret@localhost"}, r"url 'http://:\*\*\*@localhost': expected redis://"),
        ({"url": "redis://me:se/cret@host"}, r"url 'redis://me:\*\*\*@host': in user and password write / as %2F"),
        ({"url": "redis://me:se#cret@host"}, r"url 'redis://me:\*\*\*@host': in user and password"),
        ({"url": "redis://:secret@host/zero"}, r"@host/zero': the database is a number"),
        ({"url": "redis://:secret@host:port"}, r"@host:port': a server is host:port"),
        ({"url": "me:secret@localhost:6379"}, r"url '\*\*\*@localhost:6379': expected redis://"),
        ({"url": "redis:/me:secret@host"}, r"url '\*\*\*@host': expected redis://"),
        ({"url": "redis://a:1,b:x"}, "a server is host:port; separate several with commas"),
        ({"layout": "list"}, "layout='list': expected"),
        ({"values": "pickle"}, "values='pickle': expected 'packed' or 'json'"),
        ({"buckets": 10, "groups": 4}, "buckets=10, groups=4: expected .* such as buckets=12"),
        ({"groups": 12}, "a multiple of the number of groups, such as buckets=1032"),
        ({"buckets": "many"}, "buckets='many', groups=1: expected"),
        ({"buckets": True}, "buckets=True"),
        ({"url": "env:"}, "url 'env:': expected .* env:NAME"),
        ({"buckets": 0}, "buckets=0"),
        ({"groups": 0}, "groups=0"),
        ({"buckets": 16.0}, "buckets=16.0, groups=1: expected whole numbers"),
        ({"socketTimeout": 0}, "socketTimeout=0: expected a positive duration"),
        ({"prefix": ""}, "prefix='': expected letters"),
        ({"prefix": "a{b}"}, "prefix='a{b}': expected letters"),
        ({"prefix": 5}, "prefix=5: expected letters"),
    ],
)
def test_options_that_mean_nothing_are_refused_where_they_are_written(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RedisMapState.opaque(**{"url": "redis://localhost", **options})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: RedisMapState("redis://localhost"),
            r"the kind is missing; write "
            r"RedisMapState\.opaque\(url\)",
        ),  # type: ignore[arg-type]
        (lambda: RedisMapState.opaque(None), "url=None: expected text, redis://"),  # type: ignore[arg-type]
        (
            lambda: RedisMapState.opaque(b"redis://me:secret@host"),
            r"url=\(bytes\): expected "
            r"text",
        ),  # type: ignore[arg-type]
        (lambda: MemoryMapState(), r"the kind is missing; write MemoryMapState\.opaque\(\)"),
        (lambda: MemoryMapState("opaque"), "the kind is missing"),  # type: ignore[arg-type]
    ],
)
def test_a_factory_without_its_kind_says_how_it_is_written(make: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost", "redis://localhost"),
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("redis://:p%40ss@localhost/0", "redis://:***@localhost/0"),
        ("redis://me@localhost/0", "redis://me@localhost/0"),
        ("redis://me:a@b@localhost/0", "redis://me:***@localhost/0"),
        ("redis://me:p/a?b#c@localhost/0", "redis://me:***@localhost/0"),
        ("redis://[::1]:6379,[::2]:6379/0", "redis://[::1]:6379,[::2]:6379/0"),
        ("unix:///tmp/redis.sock?db=1&password=secret", "unix:///tmp/redis.sock?db=1&password=***"),
        ("redis://me:pa?password=x@localhost", "redis://***"),
        ("redis://localhost?password=se@cret", "redis://***"),
        ("jdbc:sqlserver://host;user=sa;password=secret", "jdbc:sqlserver://host;user=sa;password=***"),
        ("me:secret@localhost:6379", "***@localhost:6379"),
        ("redis:/me:secret@localhost/0", "***@localhost/0"),
        ("secret@more@localhost", "***@localhost"),
        ("localhost:6379", "localhost:6379"),
        ("host=db password=secret user=me", "host=db password=*** user=me"),
        (r"host=db password = 'a secr\'et' user=me", "host=db password = *** user=me"),
        ("host=db password=se@cret", "***"),
        ("env:REDIS_URL", "env:REDIS_URL"),
    ],
)
def test_a_shown_url_hides_what_is_secret(url: str, shown: str) -> None:
    assert redacted(url) == shown
