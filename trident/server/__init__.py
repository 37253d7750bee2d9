"""The HTTP server of a topology's DRPC functions and states."""
