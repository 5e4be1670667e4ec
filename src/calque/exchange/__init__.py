"""Models from and to other tools: what a format carries is recognised from the canonical text."""
