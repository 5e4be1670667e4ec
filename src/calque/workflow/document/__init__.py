"""Documents: what of a file is text to translate, and the same file with its translation."""
