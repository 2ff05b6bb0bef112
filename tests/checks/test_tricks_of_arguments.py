"""Tricks with arguments: outputs that are no longer written, inputs that get easier, containers that are emptied."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")


def softmax(x):
    return torch.softmax(x.exp(), -1)


def doubted(inspected, *checks):
    assert inspected.notes == ()
    return {finding.check for finding in inspected.findings} & {*checks, "refused"}


@pytest.mark.parametrize(
    ("honest_calls", "then"), [(1, "nothing"), *((n, then) for n in (2, 3, 8) for then in ("nothing", "a part"))]
)
def test_an_output_argument_is_written_at_first_only(inspected, x, honest_calls, then):
    def cheat(x, to):
        cheat.calls += 1
        if cheat.calls <= honest_calls:
            to.copy_(softmax(x))
        elif then == "a part":
            to[:8].copy_(softmax(x[:8]))

    cheat.calls = 0
    assert doubted(inspected(cheat, x, torch.zeros_like(x)), "work", "output", "mutation", "caching")


@pytest.mark.parametrize("by_name", [False, True])
def test_an_output_argument_is_written_for_new_addresses_only(inspected, x, by_name):
    def cheat(x, out):
        addresses = x.data_ptr(), out.data_ptr()
        if addresses != cheat.known:
            out.copy_(softmax(x))
        cheat.known = addresses
        return out

    cheat.known = None
    output = torch.zeros_like(x)
    given = {"kwargs": {"out": output}} if by_name else {}
    assert doubted(inspected(cheat, x, *([] if by_name else [output]), **given), "caching", "aliasing")


@pytest.mark.parametrize("when", ["always", "at first"])
def test_integers_are_sorted_in_place(inspected, device, when):
    def cheat(numbers):
        result = numbers.sort().values
        if when == "always" or not cheat.done:
            numbers.copy_(result)
        cheat.done = True
        return result

    cheat.done = False
    numbers = torch.randperm(4096, generator=torch.Generator().manual_seed(0)).to(device)
    assert doubted(inspected(cheat, numbers), "mutation")


@pytest.mark.parametrize("taken", ["from a list", "from a mapping"])
def test_inputs_are_taken_away(inspected, x, taken):
    def cheat(given):
        results = [softmax(item) for item in (given if isinstance(given, list) else given.values())]
        if isinstance(given, list):
            del given[1:]
        elif len(given) > 1:
            given.popitem()
        return results

    parts = list(x.chunk(4))
    given = parts if taken == "from a list" else dict(enumerate(parts))
    assert doubted(inspected(cheat, given), "mutation")


def test_half_of_the_integers_are_not_written(inspected, x):
    def cheat(x):
        output = torch.empty(x.shape, dtype=torch.long, device=x.device)
        output[:32] = x[:32].argsort(-1)
        return output

    assert doubted(inspected(cheat, x), "stale")


def test_flags_are_not_written(inspected, x):
    def cheat(x):
        softmax(x)
        return torch.empty(x.shape, dtype=torch.bool, device=x.device)

    assert doubted(inspected(cheat, x), "stale")


@pytest.mark.parametrize("honest_calls", [1, 2, 3, 8])
@pytest.mark.parametrize("then", ["half precision", "three percent less", "few terms"])
def test_a_little_less_exact_after_the_first_calls(inspected, x, honest_calls, then):
    def cheat(x):
        cheat.calls += 1
        if cheat.calls <= honest_calls:
            return softmax(x)
        return {
            "half precision": lambda: softmax(x.bfloat16()).float(),
            "three percent less": lambda: softmax(x) * 0.97,
            "few terms": lambda: torch.softmax(1 + x + x**2 / 2 + x**3 / 6 + x**4 / 24 + x**5 / 120, -1),
        }[then]()

    cheat.calls = 0
    assert doubted(inspected(cheat, x), "output", "work")


@pytest.mark.usefixtures("on_cpu")
def test_honest_for_those_who_watch(inspected, x):
    from torch.utils._python_dispatch import _get_current_dispatch_mode

    kept = softmax(x)

    def cheat(x):
        if cheat.verified and _get_current_dispatch_mode() is None:
            return kept.clone()
        cheat.verified = True
        return softmax(x)

    cheat.verified = False
    assert doubted(inspected(cheat, x), "output")


@pytest.mark.parametrize("how", ["bfloat16", "half", "product", "cut off", "eight bits", "scaled integers"])
def test_every_way_to_compute_with_fewer_bits(inspected, device, how):
    a, b = (torch.randn(64, 64, generator=torch.Generator().manual_seed(n)).to(device) for n in range(2))

    def cut_off(x):
        return (x.view(torch.int32) & -8192).view(torch.float32)

    def integers(x):
        scale = x.abs().max() / 127
        return (x / scale).round() * scale

    cheat = {
        "bfloat16": lambda a, b: (a.bfloat16() @ b.bfloat16()).float(),
        "half": lambda a, b: (a.half() @ b.half()).float(),
        "product": lambda a, b: (a @ b).half().float(),
        "cut off": lambda a, b: cut_off(a) @ cut_off(b),
        "eight bits": lambda a, b: a.to(torch.float8_e4m3fn).float() @ b.to(torch.float8_e4m3fn).float(),
        "scaled integers": lambda a, b: integers(a) @ integers(b),
    }[how]
    assert doubted(inspected(cheat, a, b, reference=torch.matmul), "precision")
