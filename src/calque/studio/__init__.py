"""`calque studio`: a local page on which a definition is written, drawn, priced, proved, trained and used."""
