"""What stands behind the calls of the emulated ``acl``: ledger, memory, streams, models, faults, report."""
