"""The Yahoo Streaming Benchmark: views of advertisements counted by campaign and ten seconds, into Redis."""
