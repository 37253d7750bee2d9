"""From plan to work: batch groups and stages, and the two engines that run them.

``stages`` cuts a topology into a ``program``, whose stages an ``engine`` runs: ``spark``, or ``local`` over Arrow in
the driver. What both do to tuples is written once: ``tuples`` holds columns and calls of user code, ``folding`` what
makes few of many, ``states`` and ``windows`` what a stage asks of states and makes of them.
"""
