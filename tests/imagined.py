"""An imagined accelerator: its tensors have shapes and no numbers, so that asking for one is an error."""

import contextlib

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

backends = pytest.importorskip("torch.utils.backend_registration")
if not hasattr(backends, "_setup_privateuseone_for_python_backend"):
    pytest.skip("this torch has no devices written in Python", allow_module_level=True)


def accelerator() -> str:
    """The name of its device."""
    with contextlib.suppress(RuntimeError):  # it is there already
        backends._setup_privateuseone_for_python_backend("imagined")
    return "imagined"


def moved(model: nn.Module, mode: FakeTensorMode, device: str) -> None:
    """Moves a model there; tables that a layer makes stay where they are until it moves them."""
    for part in model.modules():
        for name, x in [*part._parameters.items(), *part._buffers.items()]:
            if x is not None:
                setattr(part, name, None)
                there = torch.empty(x.shape, dtype=x.dtype, device=device)
                if name in part._parameters:
                    part._parameters[name] = nn.Parameter(there, requires_grad=False)
                else:
                    part._buffers[name] = there
        for name, x in list(vars(part).items()):
            if isinstance(x, Tensor):
                setattr(part, name, mode.from_tensor(x))
