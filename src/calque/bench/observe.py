"""Observation of the operators that reach torch's dispatcher."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from torch.utils._python_dispatch import TorchDispatchMode


class _Named(Protocol):
    __name__: str


class _Operator(Protocol):
    overloadpacket: _Named

    def __call__(self, *args: object, **kwargs: object) -> object: ...


class OperatorObserver(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it untyped
    """Inside a `with`, calls `observe` after every operator: its name, its arguments, keyword arguments last, its result."""

    def __init__(self, observe: Callable[[str, Sequence[object], object], None]):
        super().__init__()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        self._observe = observe

    def __torch_dispatch__(
        self,
        func: _Operator,
        types: Sequence[type],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        self._observe(func.overloadpacket.__name__, [*args, *kwargs.values()], result)
        return result
