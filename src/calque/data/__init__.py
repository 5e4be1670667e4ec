"""Text to batches: reading, subwords, vocabularies, the compiled corpus."""
