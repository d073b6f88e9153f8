"""ReachAgent's page graph: apps explored into pages and actions, tasks and rewards on them, preference pairs."""
