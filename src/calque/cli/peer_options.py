"""The options of `calque bench` for other systems, which are measured in turn with Calque."""

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from calque.adl.check import CheckedDefinition
    from calque.bench.peers import Peer

AGAINST = click.option(
    "--against",
    default="",
    metavar="NAME[:TYPE],...",
    help="Also measure other systems, in turn: hf, ctranslate2, sockeye, joeynmt.",
)
PEER_PYTHON = click.option(
    "--peer-python",
    "pythons",
    multiple=True,
    metavar="[NAME=]PYTHON",
    help="An interpreter that has the other systems, or the NAMEd one; repeat. Default: python3.",
)


@dataclass(frozen=True)
class PeerOptions:
    """The other systems that are measured, and the interpreters that have them."""

    against: str
    pythons: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """The systems, each with its type where one is given."""
        return self.against.split(",") if self.against else []

    def start(self, checked: "CheckedDefinition", vocabulary: int, stack: ExitStack, workers: int = 1) -> "list[Peer]":
        """Starts the systems with a model of the definition's sizes; `stack` ends them. Raises X601 and X602."""
        if not self.names:
            return []
        import torch

        from calque.bench.peers import PRECISIONS, Peer, sizes_of

        for name in self.names:
            system, _, precision = name.partition(":")
            if precision not in ("", *PRECISIONS.get(system, ())) or system not in PRECISIONS:
                known = [f"{s}:{p}" for s, types in PRECISIONS.items() for p in types]
                raise click.BadParameter(f"expected some of {', '.join(known)}, found {name}", param_hint="--against")
        sizes, threads = sizes_of(checked, vocabulary), torch.get_num_threads()
        return [stack.enter_context(Peer(n, self._python(n), sizes, threads, workers)) for n in self.names]

    def _python(self, name: str) -> str:
        """The interpreter of a system: the one given for it, else the last one given for all."""
        named = {system: python for system, equals, python in (p.partition("=") for p in self.pythons) if equals}
        shared = ["python3", *(p for p in self.pythons if "=" not in p)][-1]
        return named.get(name.partition(":")[0], shared)
