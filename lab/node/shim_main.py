"""Run as ``python -S -E shim_main.py <container folder> <ready fd>``: be the shim of one container.

The package ``lab`` itself is never imported here: it needs third-party modules and takes longer.
"""

from __future__ import annotations

import os
import sys

package = type(sys)("lab")
package.__path__ = [os.path.dirname(os.path.dirname(os.path.abspath(__file__)))]
sys.modules["lab"] = package

from lab.node.shim import main  # noqa: E402 - its package had to be replaced first

main(sys.argv[1], int(sys.argv[2]))
