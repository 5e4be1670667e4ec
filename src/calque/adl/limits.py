"""The limits of a text. Each is tested before the objects that it bounds are created; `docs/spec.md` lists them."""

MAX_CHARACTERS = 100_000  # of a text, and of its canonical form
MAX_TOKENS = 10_000  # names, numbers and marks of a text, and of its canonical form
MAX_STATEMENTS = 200
MAX_DEPTH = 80  # brackets within brackets as written, minus signs counted
MAX_OPERATIONS = 32  # operations within operations, definitions followed
MAX_EXPANSION = 40  # bodies, definitions and arguments within one another
MAX_STEPS = 4_000  # bodies, definitions and arguments expanded in all
MAX_CALLS = 2_000  # layers of the expanded text, each repetition counted once
MAX_NUMBERS = 25_000  # numbers evaluated in all; more than MAX_TOKENS, so that no canonical text reaches it
MAX_NUMBER = 10**15
MAX_DIGITS = 18
MAX_DECIMAL = 24  # characters of a decimal number; no number is written longer in canonical text
MAX_NODES = 3_000  # layers with all copies
MAX_PARAMETERS = 2 * 10**10
MAX_FAULTS = 50  # reported together
MAX_HOLES = 200  # faulty terms, counted again in each use of a definition
