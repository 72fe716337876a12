"""Experience: the shared pool of graded attempts, and the guard that keeps test samples out."""
