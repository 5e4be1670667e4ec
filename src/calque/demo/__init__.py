"""`calque demo`: the whole loop on a corpus that the program generates."""
