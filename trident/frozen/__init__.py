"""The frozen results of a stage: tables, or files that executors wrote."""
