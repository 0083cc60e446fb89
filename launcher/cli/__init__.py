"""The command line.

Objects of a short command live until it ends, so frequent garbage collection finds nothing and takes a tenth of the
time. A threshold of a hundred thousand objects costs nothing. It is set here, before other modules are imported.
"""

import gc

gc.set_threshold(100_000, 50, 50)
