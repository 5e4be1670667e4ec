"""The layers: one class in one file each, in two forms that agree."""
