"""What the tests of this folder need."""

import pytest

pytest.importorskip("confluent_kafka", reason="tests of KafkaSpout need the package confluent-kafka")
