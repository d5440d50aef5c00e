"""The loops: they join the edges with the core, and hold no rules.

inbox → ingest (commit) → project (fold, decide) → perform (act) → inbox; timers put what falls due into the inbox.
Each has `run_once()`; `supervise` runs them together and drains them when the controller is told to stop.
"""
