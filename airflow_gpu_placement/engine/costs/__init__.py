"""What a request would cost in one pool: one small file a term, all in USD, with the hours behind them.

held    = staging + runtime + rework
rework  = interruptions per GPU hour x GPUs x runtime x (min(checkpoint interval, runtime) / 2 + restart)
compute = billed GPUs x price x held, shown in two parts: the work and the expected rework
egress  = GiB to move x USD per GiB
time    = value of an hour x (wait + held)
total   = compute + rework + egress + time + preference
"""

from __future__ import annotations
