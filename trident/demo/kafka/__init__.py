"""A real Kafka broker for the demo and for tests: fetched once, started on loopback, killed by its pid."""
