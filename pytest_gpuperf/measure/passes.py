"""Forward, backward and both: the passes of a function that torch's autograd differentiates.

Gradients are taken by `torch.autograd.grad`, which returns them instead of adding them to `.grad`: nothing piles up
from call to call. The backward pass gets a fresh graph for every call, made outside the timed region, and frees it,
as in training; keeping one graph for all calls (`retain_graph`) would be refused by some compiled functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

from pytest_gpuperf.measure.plan import Setup

Mode = Literal["forward", "backward", "both"]
SEED = 20
FREED_GRAPH = "backward through the graph a second time"
"""What torch says where a graph was freed by an earlier backward pass."""


class NotDifferentiableError(TypeError):
    """The function has no backward pass on these inputs."""


class Passes:
    """Makes callables of the passes of functions that take the same inputs; all get the same incoming gradients.

    The incoming gradients are standard normal noise (ones would hide mistakes: the gradient of a softmax under ones is
    zero), 1 for a single number such as a loss. They are made once for each shape and kept.
    """

    def __init__(self) -> None:
        self._incoming: dict[tuple[object, ...], Any] = {}

    def both(self, fn: Callable[..., Any]) -> Callable[..., tuple[Any, tuple[Any, ...]]]:
        """Return what calls `fn` and then its backward pass; it returns the output and the inputs' gradients."""

        def forward_and_backward(*args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...]]:
            output, outputs, inputs, incoming = self._forward(fn, args, kwargs)
            return output, backward(outputs, inputs, incoming)

        return forward_and_backward

    def fresh_graphs(self, fn: Callable[..., Any], inputs: Setup) -> Setup:
        """Return a `setup` for `backward`: it calls `fn` on what `inputs` returns."""

        def forward() -> tuple[Sequence[Any], Mapping[str, Any]]:
            args, kwargs = inputs()
            _, *rest = self._forward(fn, args, kwargs)
            return rest, {}

        return forward

    def _forward(
        self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Any, list[Any], list[Any], list[Any]]:
        """Return the output, and the outputs, inputs and incoming gradients that a backward pass takes."""
        import torch

        inputs = _distinct([*_differentiable((fn, args, kwargs))])
        if not inputs:
            raise NotDifferentiableError(
                "a backward pass needs an input that requires a gradient: x.requires_grad_(), or a torch.nn.Module"
            )
        with torch.enable_grad():
            output = fn(*args, **kwargs)
        outputs = [tensor for tensor in _differentiable(output) if tensor.grad_fn is not None]
        if not outputs:
            raise NotDifferentiableError(
                "there is no backward pass: no output depends on an input that requires a gradient"
            )
        return output, outputs, inputs, [self._incoming_for(tensor, place) for place, tensor in enumerate(outputs)]

    def _incoming_for(self, output: Any, place: int) -> Any:
        key = (place, tuple(output.shape), output.dtype, output.device)
        if key not in self._incoming:
            self._incoming[key] = _noise(output, SEED + place)
        return self._incoming[key]


def backward(outputs: Sequence[Any], inputs: Sequence[Any], incoming: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of the inputs, None where no output depends on one; frees the graph."""
    import torch

    try:
        return tuple(torch.autograd.grad(outputs, inputs, incoming, allow_unused=True))
    except RuntimeError as error:
        if FREED_GRAPH in str(error):
            raise NotDifferentiableError(
                "the backward pass meets a graph that was used up: the function runs a backward pass itself "
                "(time it with mode='forward'), or needs what was computed outside of it from an input that requires "
                "a gradient (compute it inside, or detach() it)"
            ) from error
        raise


def _noise(output: Any, seed: int) -> Any:
    import torch

    if output.ndim == 0:
        return torch.ones_like(output)
    generator = torch.Generator(output.device).manual_seed(seed)
    dtype = torch.complex64 if output.is_complex() else torch.float32
    return torch.randn(output.shape, generator=generator, device=output.device, dtype=dtype).to(output.dtype)


def _differentiable(value: Any) -> Iterator[Any]:
    """Yield the tensors in a value that require a gradient: in containers, and a module's parameters."""
    import torch

    if isinstance(value, torch.nn.Module):
        yield from (parameter for parameter in value.parameters() if parameter.requires_grad)
    elif isinstance(value, torch.Tensor):
        if value.requires_grad:
            yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _differentiable(item)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _differentiable(item)


def _distinct(tensors: Sequence[Any]) -> list[Any]:
    return list({id(tensor): tensor for tensor in tensors}.values())
