"""The command line.

Objects of a short command live until it ends, so frequent garbage collection finds nothing and takes a tenth of the
time. A plan over everything has between one and four hundred thousand of them, and would look through them once without
finding any. The threshold is set here, before other modules are imported.
"""

import gc

gc.set_threshold(400_000, 50, 50)
