"""What every other room uses and what imports nothing of Calque: diagnostics, files, tables, plots, allocation."""
