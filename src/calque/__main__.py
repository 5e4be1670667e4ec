"""`python -m calque`, and `torchrun -m calque`: the command line."""

from calque.cli import main

if __name__ == "__main__":  # worker processes import this file under another name
    main()
