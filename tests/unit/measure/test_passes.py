from __future__ import annotations

import pytest

from pytest_gpuperf.measure.passes import NotDifferentiableError, Passes, backward

torch = pytest.importorskip("torch")


def leaf(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator().manual_seed(1)).requires_grad_()


@pytest.fixture
def passes():
    return Passes()


def incoming_of(passes):
    (only,) = passes._incoming.values()
    return only


def test_both_returns_the_output_and_the_gradients(passes):
    x, y = leaf(3, 4), leaf(4, 5)
    output, (of_x, of_y) = passes.both(torch.matmul)(x, y)
    incoming = incoming_of(passes)
    torch.testing.assert_close(output, x @ y)
    torch.testing.assert_close(of_x, incoming @ y.T)
    torch.testing.assert_close(of_y, x.T @ incoming)


def test_backward_gets_a_fresh_graph_for_every_call(passes):
    x = leaf(3, 4)
    made = []

    def fn(x):
        made.append(x.exp())
        return made[-1]

    graphs = passes.fresh_graphs(fn, lambda: ((x,), {}))
    for _ in range(3):
        args, kwargs = graphs()
        (gradient,) = backward(*args, **kwargs)
        torch.testing.assert_close(gradient, incoming_of(passes) * x.exp())
        with pytest.raises(NotDifferentiableError, match="a graph that was used up"):
            backward(*args, **kwargs)
    assert len({id(output) for output in made}) == 3


def test_no_gradient_piles_up(passes):
    model = torch.nn.Linear(4, 4)
    x = leaf(2, 4, dtype=torch.float32)
    call = passes.both(model)
    first, second = call(x), call(x)
    assert x.grad is None
    assert all(parameter.grad is None for parameter in model.parameters())
    for one, other in zip(first[1], second[1], strict=True):
        torch.testing.assert_close(one, other)


def test_the_incoming_gradient_is_made_once_and_shared_by_all_functions(passes):
    x = leaf(8, 8)
    _, (by_torch,) = passes.both(torch.sigmoid)(x)
    first = incoming_of(passes)
    _, (by_hand,) = passes.both(lambda x: 1 / (1 + torch.exp(-x)))(x)
    assert incoming_of(passes) is first
    torch.testing.assert_close(by_torch, by_hand)


def test_the_incoming_gradient_is_the_same_in_every_process_and_tells_the_elements_apart():
    one, other = Passes(), Passes()
    for passes in (one, other):
        passes.both(torch.sin)(leaf(64))
    torch.testing.assert_close(incoming_of(one), incoming_of(other), rtol=0, atol=0)
    assert incoming_of(one).unique().numel() == 64


def test_a_loss_gets_one(passes):
    x = leaf(5)
    _, (gradient,) = passes.both(lambda x: (x * x).sum())(x)
    torch.testing.assert_close(gradient, 2 * x.detach())
    assert incoming_of(passes) == 1


def test_a_row_of_one_element_is_no_loss(passes):
    passes.both(torch.sin)(leaf(1))
    assert incoming_of(passes) != 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.complex64])
def test_incoming_gradients_have_the_outputs_dtype(passes, dtype):
    _, (gradient,) = passes.both(lambda x: x * 2)(leaf(7, dtype=dtype))
    assert gradient.dtype == incoming_of(passes).dtype == dtype


def test_inputs_in_containers_and_keywords_are_found_once(passes):
    x, y, z = leaf(3), leaf(3), leaf(3)
    fixed = torch.ones(3, dtype=torch.float64)

    def fn(pair, *, more, same):
        return {"sum": pair[0] + pair[1] * fixed + more["z"] * same}

    _, gradients = passes.both(fn)([x, y], more={"z": z, "n": 3}, same=x)
    assert len(gradients) == 3


def test_several_outputs_are_all_differentiated(passes):
    x = leaf(4)
    _, (gradient,) = passes.both(lambda x: (x * 2, [x * 3], "text", x.detach()))(x)
    first, second = passes._incoming.values()
    assert not torch.equal(first, second), "what one output hides would be hidden in the other, too"
    torch.testing.assert_close(gradient, 2 * first + 3 * second)


def test_an_input_that_no_output_depends_on_has_no_gradient(passes):
    _, (of_x, of_y) = passes.both(lambda x, y: x * 2)(leaf(3), leaf(3))
    assert of_x is not None
    assert of_y is None


def test_gradients_are_recorded_whatever_surrounds_the_call(passes):
    with torch.no_grad():
        _, (gradient,) = passes.both(torch.sin)(leaf(3))
    assert gradient is not None


@pytest.mark.parametrize(
    ("fn", "make", "message"),
    [
        (torch.sin, lambda: torch.ones(3), "needs an input that requires a gradient"),
        (lambda x: x.detach() * 2, lambda: leaf(3), "no output depends on an input"),
        (lambda x: x, lambda: leaf(3), "no output depends on an input"),
    ],
)
def test_what_has_no_backward_pass_is_refused(passes, fn, make, message):
    with pytest.raises(NotDifferentiableError, match=message):
        passes.both(fn)(make())
    with pytest.raises(NotDifferentiableError, match=message):
        passes.fresh_graphs(fn, lambda: ((make(),), {}))()


@pytest.mark.parametrize("mode", ["both", "fresh_graphs"])
def test_a_graph_from_outside_is_used_up_after_one_call(passes, mode):
    x = leaf(3)
    outside = (x * x).exp()

    def fn(x):
        return outside * x

    def once():
        if mode == "both":
            return passes.both(fn)(x)
        args, kwargs = passes.fresh_graphs(fn, lambda: ((x,), {}))()
        return backward(*args, **kwargs)

    once()
    with pytest.raises(NotDifferentiableError, match=r"needs what was computed outside of it .* or detach\(\) it"):
        once()


def test_a_function_that_runs_its_backward_pass_itself(passes):
    def step(x):
        loss = (x * x).sum()
        loss.backward()
        return loss

    with pytest.raises(NotDifferentiableError, match=r"runs a backward pass itself \(time it with mode='forward'\)"):
        passes.both(step)(leaf(3))


def test_other_failures_of_a_backward_pass_are_its_own(passes):
    def spoiled(x):
        kept = x.exp()
        squared = kept * kept
        kept.add_(1)
        return squared

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        passes.both(spoiled)(leaf(3))
