"""AdamW as one compiled function over float32 masters of low-precision weights, or over float32
weights themselves. Arithmetic and defaults are those of torch.optim.AdamW."""

import weakref
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

RATE, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.999, 1e-8, 1e-2

Tensors = Sequence[Tensor]


def each(
    weights: Tensors, gradients: Tensors, masters: Tensors, first: Tensors, second: Tensors,
    step: Tensor,
) -> None:  # fmt: skip
    """A kernel for every tensor."""
    rate = RATE / (1 - BETA1**step)
    root = (1 - BETA2**step).sqrt()
    for weight, gradient, master, m, v in zip(
        weights, gradients, masters, first, second, strict=True
    ):
        wide = gradient.float()
        m.lerp_(wide, 1 - BETA1)
        v.mul_(BETA2).addcmul_(wide, wide, value=1 - BETA2)
        master.mul_(1 - RATE * DECAY).sub_(rate * m / (v.sqrt() / root + EPS))
        if weight is not master:
            weight.copy_(master)


def foreach(
    weights: Tensors, gradients: Tensors, masters: Tensors, first: Tensors, second: Tensors,
    step: Tensor,
) -> None:  # fmt: skip
    """Kernels over many tensors, which the compiler fuses horizontally."""
    rate = -RATE / (1 - BETA1**step)
    root = (1 - BETA2**step).sqrt()
    wide = [gradient.float() for gradient in gradients]
    torch._foreach_lerp_(first, wide, 1 - BETA1)
    torch._foreach_mul_(second, BETA2)
    torch._foreach_addcmul_(second, wide, wide, 1 - BETA2)
    denominators = torch._foreach_sqrt(second)
    torch._foreach_div_(denominators, root)
    torch._foreach_add_(denominators, EPS)
    torch._foreach_div_(denominators, rate)
    torch._foreach_mul_(masters, 1 - RATE * DECAY)
    torch._foreach_addcdiv_(masters, first, denominators)
    if weights[0] is not masters[0]:
        torch._foreach_copy_(weights, masters)


def with_masters(model: torch.nn.Module, low: torch.dtype | None) -> list[Tensor]:
    """Float32 copies of the model's parameters, which become low-precision; without a low precision
    the parameters themselves."""
    parameters = list(model.parameters())
    if low is None:
        return [parameter.detach() for parameter in parameters]
    masters = [parameter.detach().clone() for parameter in parameters]
    for parameter in parameters:
        parameter.data = parameter.data.to(low)
    return masters


class CompiledAdamW:
    """The interface of an optimizer, as far as a step needs it."""

    def __init__(
        self,
        parameters: Iterable[torch.nn.Parameter],
        masters: Tensors,
        update: Callable[..., None],
        settings: dict[str, object],
    ) -> None:
        """`masters`: see with_masters(); `settings`: of torch.compile."""
        self.parameters = list(parameters)
        weights = [
            master if parameter.dtype == torch.float32 else parameter.detach()
            for parameter, master in zip(self.parameters, masters, strict=True)
        ]
        first, second = ([torch.zeros_like(m) for m in masters] for _ in range(2))
        self.steps = torch.zeros((), device=weights[0].device)
        self.state = dict(
            zip(self.parameters, zip(weights, masters, first, second, strict=True), strict=True)
        )
        self.update = torch.compile(update, fullgraph=True, **settings)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for parameter in self.parameters:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        self.begin()
        self.apply(self.parameters)

    @torch.no_grad()
    def begin(self) -> None:
        self.steps += 1

    @torch.no_grad()
    def apply(self, parameters: Sequence[torch.nn.Parameter]) -> None:
        weights, masters, first, second = zip(*map(self.state.get, parameters), strict=True)
        gradients = [parameter.grad for parameter in parameters]
        self.update(weights, gradients, masters, first, second, self.steps)

    def update_in_backward(self) -> None:
        """Each parameter is updated as soon as its gradient is ready, which is then freed: there is
        no gradient clipping. `step` must not be called any more, but `begin` before backward."""

        # A hook that held the optimizer would keep it, and all parameters, for ever.
        optimizer = weakref.ref(self)

        def updated(parameter: torch.nn.Parameter) -> None:
            optimizer().apply([parameter])
            parameter.grad = None

        for parameter in self.parameters:
            parameter.register_post_accumulate_grad_hook(updated)
