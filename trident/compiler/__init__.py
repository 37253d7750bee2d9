"""From plan to work: batch groups and stages, and the two engines that run them.

``stages`` cuts a topology into a ``program``, whose stages an ``engine`` runs: ``spark``, or ``arrow`` in the driver.
What both do to tuples is written once: ``columns`` holds tuples in memory and calls of user code, ``aggregates`` what
makes few of many, ``states`` and ``windows`` what a stage asks of states and makes of them.
"""
