"""Adapters: the executors through which a run calls spouts that users implement."""
