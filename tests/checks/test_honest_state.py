"""Honest callables that keep something in memory which they write to in part: rings, caches, statistics, histories."""

from __future__ import annotations

import itertools
from collections import deque

import pytest

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


def softmax(x):
    return torch.softmax(x, -1)


def old_of_history(x):
    history = torch.zeros(4, 128, device=x.device)

    def fn(x):
        old = history[0] * 1.0
        history[0] = x.mean(0)
        return old + x

    return fn


def old_of_history_copy(x):
    history = torch.zeros(4, 128, device=x.device)

    def fn(x):
        old = history[0].clone()
        history[0].copy_(x.mean(0))
        return old - x.mean(0)

    return fn


def full_copy(x):
    prev = torch.zeros_like(x)

    def fn(x):
        out = softmax(x - prev)
        prev.copy_(x)
        return out

    return fn


def column(x):
    buf = torch.zeros(64, 4, device=x.device)

    def fn(x):
        out = torch.sigmoid(buf[:, 0] - x.mean(-1))
        buf[:, 0] = x.mean(-1)
        return out

    return fn


def index_copy(x):
    buf = torch.zeros(4, 64, 128, device=x.device)
    at = torch.tensor([2], device=x.device)

    def fn(x):
        out = softmax(x - buf[2])
        buf.index_copy_(0, at, x[None])
        return out

    return fn


def scatter(x):
    buf = torch.zeros(64, 128, device=x.device)
    at = torch.arange(128, device=x.device).expand(64, 128).contiguous()

    def fn(x):
        out = softmax(x - buf)
        buf.scatter_(1, at, x)
        return out

    return fn


def index_put(x):
    buf = torch.zeros(128, 128, device=x.device)
    at = torch.arange(64, device=x.device)

    def fn(x):
        out = softmax(x - buf[at])
        buf[at] = x
        return out

    return fn


def ring_median(x):
    ring = torch.zeros(5, 128, device=x.device)
    turns = itertools.count()

    def fn(x):
        ring[next(turns) % 5] = x.mean(0) - 10
        return ring.median(0).values

    return fn


def ring_min(x):
    ring = torch.zeros(16, device=x.device)
    turns = itertools.count()

    def fn(x):
        ring[next(turns) % 16] = x.abs().amax()
        return x / (ring.amin() + 1)

    return fn


def double_buffer(x):
    buf = torch.zeros(2, 64, 128, device=x.device)
    turns = itertools.count()

    def fn(x):
        t = next(turns) % 2
        buf[t] = x
        return softmax(x - buf[1 - t])

    return fn


def double_buffer_read_first(x):
    buf = torch.zeros(2, 64, 128, device=x.device)
    turns = itertools.count()

    def fn(x):
        t = next(turns) % 2
        out = (x - buf[1 - t]).abs().mean()
        buf[t].copy_(x)
        return out, softmax(x)

    return fn


def kv_before_write(x):
    keys = torch.zeros(1, 4, 32, 128, device=x.device)

    def fn(x):
        q = x[:4].view(1, 4, 1, 128)
        past = softmax(q @ keys.transpose(-1, -2)) @ keys
        keys[:, :, 5] = x[4:8]
        return past

    return fn


def kv_after_write(x):
    keys = torch.zeros(1, 4, 32, 128, device=x.device)
    turns = itertools.count()

    def fn(x):
        keys[:, :, next(turns) % 32] = x[4:8]
        return F.scaled_dot_product_attention(x[:4].view(1, 4, 1, 128), keys, keys)

    return fn


def kv_sliding_max(x):
    keys = torch.zeros(8, 128, device=x.device)
    turns = itertools.count()

    def fn(x):
        keys.narrow(0, next(turns) % 8, 1).copy_(x[:1] - 9)
        return (x[:1] @ keys.t()).amax(-1) + x.sum(-1)

    return fn


def running_stats(x):
    stats = torch.zeros(2, 128, device=x.device)

    def fn(x):
        mean = x.mean(0)
        out = (x - stats[0]) / (stats[1] + 1)
        stats[0] = mean
        stats[1] = x.var(0)
        return out

    return fn


def running_stats_ema(x):
    stats = torch.zeros(2, 128, device=x.device)

    def fn(x):
        stats[0] = stats[0] * 0.5 + x.mean(0) * 0.5
        return x - stats[0]

    return fn


def loss_history(x):
    losses = torch.zeros(100, device=x.device)
    turns = itertools.count()

    def fn(x):
        t = next(turns) % 100
        loss = x.square().mean()
        losses[t] = loss
        return loss - losses[: max(1, t)].min(), losses

    return fn


def loss_history_returned(x):
    losses = torch.zeros(16, device=x.device)
    turns = itertools.count()

    def fn(x):
        losses[next(turns) % 16] = x.square().mean()
        return losses.clone()

    return fn


def loss_history_sorted(x):
    losses = torch.zeros(16, device=x.device)
    turns = itertools.count()

    def fn(x):
        losses[next(turns) % 16] = x.square().mean()
        return losses.sort().values[:8]

    return fn


def shift_register(x):
    reg = torch.zeros(4, 128, device=x.device)

    def fn(x):
        reg[1:] = reg[:-1].clone()
        reg[0] = x.mean(0)
        return reg.diff(dim=0)

    return fn


def rolled(x):
    st = {"reg": torch.zeros(4, 128, device=x.device)}

    def fn(x):
        st["reg"] = torch.roll(st["reg"], 1, 0)
        st["reg"][0] = x.mean(0)
        return st["reg"][0] - st["reg"][3]

    return fn


def amax_history(x):
    h = torch.zeros(8, device=x.device)

    def fn(x):
        scale = 448 / h.amax().clamp(min=1e-3)
        h.copy_(torch.roll(h, 1))
        h[0] = x.abs().amax()
        return (x * scale).clamp(-448, 448)

    return fn


def fifo_cat(x):
    st = {"q": torch.zeros(4, 128, device=x.device)}

    def fn(x):
        old = st["q"][0]
        st["q"] = torch.cat([st["q"][1:], x.mean(0, keepdim=True)])
        return x - old

    return fn


def stale_gradient(x):
    w = torch.randn(128, 8, device=x.device)
    g = torch.zeros_like(w)

    def fn(x):
        out = g.norm() + x.sum()
        g.copy_(x.t() @ (x @ w))
        return out

    return fn


def out_variant(x):
    prev = torch.zeros_like(x)

    def fn(x):
        d = x - prev
        torch.mul(x, 1.0, out=prev)
        return d.exp()

    return fn


def zeroed_accumulator(x):
    acc = torch.zeros(128, device=x.device)

    def fn(x):
        seen = acc * 1.0
        acc.zero_()
        acc.add_(x.mean(0))
        return x + seen

    return fn


def foreach_copy(x):
    prev = [torch.zeros_like(r) for r in x.chunk(4)]

    def fn(x):
        rows = list(x.chunk(4))
        out = torch._foreach_sub(rows, prev)
        torch._foreach_copy_(prev, rows)
        return [o.exp() for o in out]

    return fn


def slot_by_put(x):
    prev = torch.zeros(256, device=x.device)
    at = torch.arange(0, 256, 2, device=x.device)

    def fn(x):
        out = x - prev.take(at)
        prev.put_(at, x.mean(0))
        return out.exp()

    return fn


def masked(x):
    prev = torch.zeros_like(x)
    m = torch.ones_like(x, dtype=torch.bool)

    def fn(x):
        out = (x - prev).exp()
        prev.masked_scatter_(m, x)
        return out

    return fn


def where_swap(x):
    st = {"p": torch.zeros_like(x)}

    def fn(x):
        p = st["p"]
        st["p"] = torch.where(x.isfinite(), x, p)
        return (x - p).exp()

    return fn


def diag(x):
    cov = torch.zeros(128, 128, device=x.device)

    def fn(x):
        out = x @ cov
        cov.diagonal().copy_(x.var(0))
        return out + x

    return fn


def as_strided(x):
    b = torch.zeros(256, device=x.device)

    def fn(x):
        out = x + b.as_strided((128,), (2,))
        b.as_strided((128,), (2,)).copy_(x.mean(0))
        return out

    return fn


def complex_part(x):
    z = torch.zeros(128, dtype=torch.complex64, device=x.device)

    def fn(x):
        out = x * z.abs()
        z.real.copy_(x.mean(0))
        z.imag.fill_(1)
        return out + x

    return fn


def other_dtype(x):
    raw = torch.zeros(512, dtype=torch.uint8, device=x.device)

    def fn(x):
        f = raw.view(torch.float32)
        out = x - f
        f.copy_(x.mean(0))
        return out

    return fn


def linked_optimizer_state(x):
    flat = torch.zeros(3, 128, device=x.device)

    def fn(x):
        g = x.mean(0)
        p, m, v = flat.unbind(0)
        m.copy_(m * 0.9 + g * 0.1)
        v.copy_(v * 0.9 + g * g * 0.1)
        step = m / (v.sqrt() + 1e-3)
        p.sub_(step, alpha=0.01)
        return step

    return fn


def ring(lag, size):
    def make(x):
        slots, turns = torch.zeros(size, 64, 128, device=x.device), itertools.count()

        def difference(x):
            at = next(turns)
            slots[at % size] = x
            return softmax(x - slots[(at - lag) % size])

        return difference

    return make


def queue(lag):
    def make(x):
        waiting = deque([torch.zeros_like(x)] * lag)

        def difference(x):
            waiting.append(x.clone())
            return softmax(x - waiting.popleft())

        return difference

    return make


STATES = [
    old_of_history,
    old_of_history_copy,
    full_copy,
    column,
    index_copy,
    scatter,
    index_put,
    ring_median,
    ring_min,
    double_buffer,
    double_buffer_read_first,
    kv_before_write,
    kv_after_write,
    kv_sliding_max,
    running_stats,
    running_stats_ema,
    loss_history,
    loss_history_returned,
    loss_history_sorted,
    shift_register,
    rolled,
    amax_history,
    fifo_cat,
    stale_gradient,
    out_variant,
    zeroed_accumulator,
    foreach_copy,
    slot_by_put,
    masked,
    where_swap,
    diag,
    as_strided,
    complex_part,
    other_dtype,
    linked_optimizer_state,
]
LAGS = [(1, 2), (1, 4), (2, 4), (3, 4), (3, 8), (4, 8), (7, 8), (5, 10)]


@pytest.mark.parametrize("make", STATES, ids=lambda make: make.__name__)
def test_memory_that_is_read_and_written(silent, x, make):
    silent(make(x), x)


@pytest.mark.parametrize(("lag", "size"), LAGS)
def test_a_ring_of_the_last_inputs(silent, x, lag, size):
    silent(ring(lag, size)(x), x)


@pytest.mark.parametrize("lag", [1, 2, 3, 5, 8])
def test_a_queue_of_the_last_inputs(silent, x, lag):
    silent(queue(lag)(x), x)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("lag", [1, 2, 3, 5, 8, 10])
def test_a_queue_of_plain_numbers(silent, x, lag):
    waiting = deque([1.0] * lag)

    def scaled(x):
        waiting.append(float(x.abs().max()))
        return x / waiting.popleft()

    silent(scaled, x)


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("lag", [1, 3])
def test_a_queue_of_arrays(silent, x, lag):
    pytest.importorskip("numpy")
    waiting = deque([torch.zeros_like(x).numpy()] * lag)

    def difference(x):
        waiting.append(x.numpy().copy())
        return softmax(x - torch.from_numpy(waiting.popleft()))

    silent(difference, x)


@pytest.mark.parametrize("calls", [2, 4, 6, 9])
def test_a_histogram_of_the_first_calls(silent, x, calls):
    counts, turns, held = torch.zeros(64, device=x.device), itertools.count(), {}

    def clamped(x):
        if next(turns) < calls:
            counts.add_(torch.histc(x.abs(), 64, 0, 6))
            held["most"] = (counts.cumsum(0) / counts.sum() < 0.99).sum() * 6 / 64
        return x.clamp(-held["most"], held["most"])

    silent(clamped, x)
