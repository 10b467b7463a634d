"""From files that others write (traces, measurements) to snapshots."""
