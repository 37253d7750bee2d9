"""Topologies by name: a cluster within one process, and stored topologies with separate driver processes."""
