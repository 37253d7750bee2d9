"""Spouts over message queues: each message is acknowledged once its batch is committed, and fails with it."""
