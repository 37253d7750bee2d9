"""The compiler: it cuts a plan into batch groups and stages. Two engines run the stages.

``stages`` cuts a topology into a ``program``, and an ``engine`` runs its stages: ``spark``, or ``arrow`` in the driver.
The operations on tuples are written once, for both engines: ``columns`` holds tuples in memory and the calls of user
code, ``aggregates`` combines tuples, and ``states`` and ``windows`` query and update states.
"""
