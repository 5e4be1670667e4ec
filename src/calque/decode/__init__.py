"""Search and scoring over `step`."""
