"""Redis Streams as a source: the API, plans of id ranges, the detection of lost entries, and the reading."""
