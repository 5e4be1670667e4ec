"""Many commands of Calque side by side: on this machine, by Slurm or by Ray, watched until all have ended."""
