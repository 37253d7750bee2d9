"""DRPC: queries of the states from outside the topology, answered in the driver over Arrow columns."""
