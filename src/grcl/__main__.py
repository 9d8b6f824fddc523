"""python -m grcl, and so torchrun -m grcl."""

import sys

from grcl.cli import main

sys.exit(main())
