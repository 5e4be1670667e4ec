"""Training: loss, optimisers, schedules, the loop, checkpoints."""
