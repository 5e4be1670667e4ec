"""The architecture definition language: text, parse tree, checked tree. Nothing here imports torch."""
