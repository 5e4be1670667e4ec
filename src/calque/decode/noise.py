"""Uniform random numbers that depend on a key and a count alone: without a generator, a state or an effect of the batch.

They are those of SplitMix64 (Steele, Lea and Flood 2014, section 4): number t of the stream with state s is mix(s + t g). Integers
wrap at 64 bits, so that every device gives the same numbers.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def _signed(x: int) -> int:
    """The 64-bit integer whose bits are those of `x`."""
    return (x & (2**64 - 1)) - ((x & 2**63) << 1)


_GAMMA, _FIRST, _SECOND = (_signed(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def _shifted(x: Tensor, bits: int) -> Tensor:
    """x >> bits, filled with zeros from the left."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def mix(x: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """A bijection of 64 bits in which every bit of the input affects every bit of the output."""
    x = (x ^ _shifted(x, 30)) * _FIRST
    x = (x ^ _shifted(x, 27)) * _SECOND
    return x ^ _shifted(x, 31)


def stream(seed: int, *counts: Int[Tensor, "..."]) -> Int[Tensor, "..."]:
    """The states of streams, one for each combination of counts, which broadcast."""
    state = torch.full((), _signed(seed), dtype=torch.int64, device=counts[0].device)
    for count in counts:
        state = mix(mix(state + _GAMMA) ^ count) + _GAMMA
    return state


def uniform(state: Int[Tensor, "..."], t: int | Int[Tensor, ""]) -> Float[Tensor, "..."]:
    """Number t, from 1, of each stream: a multiple of 2^-52 in [0, 1), float64."""
    return (
        _shifted(mix(state + (t * _GAMMA if isinstance(t, Tensor) else _signed(t * _GAMMA))), 12).to(torch.float64)
        * 2.0**-52
    )
