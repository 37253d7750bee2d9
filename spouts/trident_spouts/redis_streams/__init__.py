"""Redis Streams as a source: what users write, plans of id ranges, the detection of lost entries, and the reading."""
