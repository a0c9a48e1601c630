"""An orchestrator and its workers: one plans and collects, another writes each file, as a task of its own."""
