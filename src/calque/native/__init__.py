"""Kernels in C++ for decoding on a processor, compiled where they are used; without a compiler torch does the work."""
