"""What a stage asks of states and makes of them, before any is written."""
