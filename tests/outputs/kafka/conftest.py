"""What the tests of this folder need."""

import pytest

pytest.importorskip("confluent_kafka", reason="tests of writeKafka need the package confluent-kafka")
