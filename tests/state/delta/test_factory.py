"""The options of DeltaMapState."""

import pickle
from typing import Any

import pytest

from trident.state import DeltaMapState, StateKind


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: DeltaMapState(), TypeError, "the kind is missing"),
        (lambda: DeltaMapState(StateKind.NON_TRANSACTIONAL, "x"), TypeError, "the kind is missing"),
        (lambda: DeltaMapState.opaque(5), TypeError, "url=5: expected a folder"),
        (lambda: DeltaMapState.opaque(""), ValueError, "url='': expected a folder"),
        (lambda: DeltaMapState.opaque("x", cacheBytes=-1), ValueError, "cacheBytes=-1: expected a number of bytes"),
        (lambda: DeltaMapState.opaque("x", keepHours=0), ValueError, "keepHours=0: expected a whole number of hours"),
        (lambda: DeltaMapState.opaque("x", writers="all"), ValueError, "writers='all': expected 'driver', 'exec"),
        (
            lambda: DeltaMapState.opaque("s3://b", writers="executors", storageOptions={"AWS_SECRET": "hush"}),
            ValueError,
            "writers='executors' with a secret in storageOptions",
        ),
        (lambda: DeltaMapState.opaque("x", ttlSecs=-1), ValueError, "ttlSecs"),
        (lambda: DeltaMapState.opaque("x", storageOptions={"a": 1}), ValueError, "expected a mapping of strings"),
        (
            lambda: DeltaMapState.opaque("s3://b", storageOptions={"aws_s3_allow_unsafe_rename": "true"}),
            ValueError,
            "storageOptions: aws_s3_allow_unsafe_rename lets two drivers create the same version",
        ),
    ],
)
def test_wrong_options_are_refused(make: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        make()


def test_a_factory_shows_its_options_without_secrets_and_can_be_sent() -> None:
    made = DeltaMapState.opaque("s3://b/states", storageOptions={"AWS_SECRET_ACCESS_KEY": "hush"}, ttlSecs="1 hour")
    assert repr(made) == "DeltaMapState.opaque('s3://b/states', ttlSecs=3600)"
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301 (of this test)
    assert (made.survives, made.fenced, made.ttlSecs) == ("server", True, 3600)
    assert repr(DeltaMapState.transactional("x", cacheBytes=1, keepHours=2)) == (
        "DeltaMapState.transactional('x', cacheBytes=1, keepHours=2)"
    )


def test_options_that_only_name_secrets_may_be_sent() -> None:
    options = {"AWS_SECRET_ACCESS_KEY": "env:KEY", "AWS_REGION": "eu-west-1"}
    made = DeltaMapState.opaque("s3://b", storageOptions=options, writers="executors")
    assert made.sendable and "writers='executors'" in repr(made)
    assert not DeltaMapState.opaque("s3://b", storageOptions={"AWS_SESSION_TOKEN": "hush"}).sendable
