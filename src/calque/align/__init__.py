"""Word alignment: links and their files, IBM models, symmetrisation, lexical tables."""
