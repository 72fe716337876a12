"""Reports, made from run folders alone: rows of runs, tables of rows, and how tables are shown."""
