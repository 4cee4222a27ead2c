"""Put a remote job on a cluster, find it again, take it away and tell how well its end is proven.

A module may live here when it writes to a cluster, or when it says what is to be written. It waits for
nothing but its own calls and never watches training.
"""

from __future__ import annotations
