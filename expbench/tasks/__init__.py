"""The tasks: one file a task, each exporting a `Task` as `TASK`; beside them what they share."""
