"""``airflow gpu-placement doctor``: what is set up wrongly, and how to mend it.

``read`` asks the clusters; the ``check`` modules are pure and turn what was read into findings.
"""

from __future__ import annotations
