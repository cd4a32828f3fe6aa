"""What permissions forbid is forbidden to root too, once it has given that right up."""

from __future__ import annotations

import os
import shutil

_DROP = (shutil.which("setpriv") or "setpriv", "--bounding-set=-dac_override,-dac_read_search")
# Words before a command that may read and write only what permissions allow, whoever runs the tests (Linux).
ORDINARY: tuple[str, ...] = _DROP if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
