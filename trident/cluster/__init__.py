"""Topologies by name: a cluster within one process, and stored topologies with driver processes of their own."""
