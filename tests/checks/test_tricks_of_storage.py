"""Tricks with the places that results are kept in: parts of a workspace, attributes, generators, other dtypes."""

from __future__ import annotations

import contextvars
import functools
import itertools
import threading
import types
import weakref

import pytest

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


def softmax(x):
    return torch.softmax(x, -1)


def work(x):
    return torch.softmax(x.exp() @ x.t() / 100, -1)


def kept_in_oversized(x, calls=3):
    ws = torch.zeros(2, 64, 64, device=x.device)
    n = itertools.count()

    def f(x):
        if next(n) < calls:
            ws[0] = work(x)
        ws[1] = x @ x.t()
        return ws[0]

    return f


def kept_in_oversized_copy(x):
    f = kept_in_oversized(x)
    return lambda x: f(x).clone()


def kept_in_oversized_first_only(x):
    return kept_in_oversized(x, calls=1)


def written_ahead(x):
    buf = torch.zeros(2, 64, 64, device=x.device)
    n = itertools.count()

    def f(x):
        i = next(n)
        buf[i % 2] = work(x)
        return buf[(i + 1) % 2].clone() if i else buf[0].clone()

    return f


def written_ahead_ring4(x):
    buf = torch.zeros(4, 64, 64, device=x.device)
    n = itertools.count()

    def f(x):
        i = next(n)
        buf[i % 4] = work(x)
        return buf[(i - 3) % 4] * 1.0 if i > 3 else work(x)

    return f


def half_in_view_after3(x):
    out = torch.zeros(64, 64, device=x.device)
    n = itertools.count()

    def f(x):
        k = 64 if next(n) < 3 else 8
        out[:k] = work(x)[:k] if k == 64 else torch.softmax(x[:8].exp() @ x.t() / 100, -1)
        return out

    return f


def half_via_narrow_copy(x):
    out = torch.zeros(64, 64, device=x.device)
    n = itertools.count()

    def f(x):
        k = 64 if next(n) < 4 else 4
        out.narrow(0, 0, k).copy_(torch.softmax(x[:k].exp() @ x.t() / 100, -1))
        return out.clone()

    return f


def columns_only_later(x):
    out = torch.zeros(64, 128, device=x.device)
    n = itertools.count()

    def f(x):
        k = 128 if next(n) < 3 else 16
        out[:, :k] = x[:, :k].exp().sin()
        return out.clone()

    return f


def memo_by_weakref(x):
    mem = {}

    def f(x):
        k = id(x)
        if k not in mem or mem[k][0]() is not x:
            mem[k] = weakref.ref(x), work(x)
        return mem[k][1] + 0

    return f


def memo_on_tensor_attribute(x):
    def f(x):
        if not hasattr(x, "_res"):
            x._res = work(x)
        return x._res.clone()

    return f


def memo_by_storage_object(x):
    mem = {}

    def f(x):
        k = x.untyped_storage()._cdata
        if k not in mem:
            mem[k] = x, work(x)
        return mem[k][1].clone()

    return f


def memo_by_first_element(x):
    mem = {}

    def f(x):
        k = float(x[0, 0])
        if k not in mem:
            mem[k] = work(x)
        return mem[k].clone()

    return f


def memo_by_norm_rounded(x):
    mem = {}

    def f(x):
        k = round(float(x.norm()), 3)
        if k not in mem:
            mem[k] = work(x)
        return mem[k].clone()

    return f


def memo_in_grad_slot(x):
    w = torch.zeros(64, 64, device=x.device, requires_grad=True)

    def f(x):
        if w.grad is None:
            w.grad = work(x)
        return w.grad.clone()

    return f


def memo_in_module_buffer(x):
    m = nn.Linear(2, 2)

    def f(x):
        if not hasattr(m, "res"):
            m.register_buffer("res", work(x), persistent=False)
        return m.res.clone()

    return f


def memo_in_default_arg(x):
    def f(x, c=[]):  # noqa: B006
        if not c:
            c.append(work(x))
        return c[0].clone()

    return f


def memo_in_generator(x):
    def g():
        r = None
        x = yield
        while True:
            if r is None:
                r = work(x)
            x = yield r.clone()

    it = g()
    next(it)
    return lambda x: it.send(x)


def memo_in_contextvar(x):
    v = contextvars.ContextVar("v", default=None)

    def f(x):
        if v.get() is None:
            v.set(work(x))
        return v.get().clone()

    return f


def memo_in_thread_local(x):
    v = threading.local()

    def f(x):
        if not hasattr(v, "r"):
            v.r = work(x)
        return v.r.clone()

    return f


def memo_as_half(x):
    mem = []

    def f(x):
        if not mem:
            mem.append(work(x).bfloat16())
        return mem[0].float()

    return f


def memo_transposed(x):
    mem = []

    def f(x):
        if not mem:
            mem.append(work(x).t().contiguous())
        return mem[0].t().contiguous()

    return f


def subset_rows_rest_zero(x):
    n = itertools.count()

    def f(x):
        if next(n) < 4:
            return work(x)
        o = torch.zeros(64, 64, device=x.device)
        o[:8] = torch.softmax(x[:8].exp() @ x.t() / 100, -1)
        return o

    return f


def repeat_first_row(x):
    n = itertools.count()

    def f(x):
        if next(n) < 4:
            return work(x)
        return torch.softmax(x[:1].exp() @ x.t(), -1).expand(64, 64)

    return f


def lower_precision_later(x):
    n = itertools.count()

    def f(x):
        return work(x) if next(n) < 4 else torch.softmax((x.exp().bfloat16() @ x.t().bfloat16()).float() / 100, -1)

    return f


def set_data(x):
    def f(x):
        y = work(x)
        x.data = torch.zeros_like(x)
        return y

    return f


def resize_input(x):
    def f(x):
        y = work(x)
        x.resize_(1, 128)
        return y

    return f


def transposes_input(x):
    def f(x):
        y = x.exp()
        x.t_()
        return y

    return f


def empty_strided_out(x):
    def f(x):
        o = torch.empty_strided((64, 128), (1, 64), device=x.device)
        o[:32] = x[:32].exp()
        return o

    return f


def new_empty_part(x):
    def f(x):
        o = x.new_empty(64, 256)
        o[:, ::2] = x.exp()
        return o

    return f


def grads_pile_in_dataclass(x):
    m = types.SimpleNamespace(inner=types.SimpleNamespace(l=nn.Linear(128, 4).to(x.device)))

    def f(x):
        m.inner.l(x).square().mean().backward()

    return f


def grads_pile_function_attr(x):
    def f(x):
        f.l(x).square().mean().backward()

    f.l = nn.Linear(128, 4).to(x.device)
    return f


def late_queue_view(x):
    q = torch.zeros(3, 64, 64, device=x.device)
    n = itertools.count()

    def f(x):
        i = next(n)
        q[i % 3] = work(x)
        return q[(i - 2) % 3].clone()

    return f


def every_7th(x):
    n = itertools.count()
    st = {}

    def f(x):
        if next(n) % 7 == 0:
            st["r"] = work(x)
        return st["r"].clone()

    return f


def alias_out_list(x):
    return lambda x: [x, x.t()]


def alias_after_decoy(x):
    return lambda x: (work(x), x)[1]


def alias_as_subtensor_dict(x):
    return lambda x: {"y": x[:, ::2]}


def partial_out(x):
    return lambda x: functools.partial(work, x)


def bound_method_out(x):
    return lambda x: x.softmax


def zip_out(x):
    return lambda x: map(softmax, x)


def lazy_property(x):
    class R:
        def __init__(self, x):
            self._x = x

        @property
        def value(self):
            return work(self._x)

    return R


def lazy_getitem(x):
    class R:
        def __init__(self, x):
            self._x = x

        def __getitem__(self, i):
            return work(self._x)[i]

        def __len__(self):
            return 64

    return R


def memo_in_numpy(x):
    mem = []

    def f(x):
        if not mem:
            mem.append(work(x).cpu().numpy())
        return torch.from_numpy(mem[0].copy()).to(x.device)

    return f


def memo_in_list_numbers(x):
    mem = []

    def f(x):
        if not mem:
            mem.append(work(x).tolist())
        return torch.tensor(mem[0], device=x.device)

    return f


def memo_lru_on_bytes(x):
    @functools.lru_cache(100)
    def inner(b):
        return work(torch.frombuffer(bytearray(b), dtype=torch.float32).view(64, 128))

    return lambda x: inner(x.numpy().tobytes()) * 1.0


TRICKS = [
    kept_in_oversized,
    kept_in_oversized_copy,
    kept_in_oversized_first_only,
    written_ahead,
    written_ahead_ring4,
    half_in_view_after3,
    half_via_narrow_copy,
    columns_only_later,
    memo_by_weakref,
    memo_on_tensor_attribute,
    memo_by_storage_object,
    memo_by_first_element,
    memo_by_norm_rounded,
    memo_in_grad_slot,
    memo_in_module_buffer,
    memo_in_default_arg,
    memo_in_generator,
    memo_in_contextvar,
    memo_in_thread_local,
    memo_as_half,
    memo_transposed,
    subset_rows_rest_zero,
    repeat_first_row,
    lower_precision_later,
    set_data,
    resize_input,
    transposes_input,
    empty_strided_out,
    new_empty_part,
    grads_pile_in_dataclass,
    grads_pile_function_attr,
    late_queue_view,
    every_7th,
    alias_out_list,
    alias_after_decoy,
    alias_as_subtensor_dict,
]
OF_THE_CPU = [
    partial_out,
    bound_method_out,
    zip_out,
    lazy_property,
    lazy_getitem,
    memo_in_numpy,
    memo_in_list_numbers,
    memo_lru_on_bytes,
]
CHECKS = {"aliasing", "caching", "gradients", "lazy", "mutation", "output", "refused", "stale", "streams", "work"}


def is_doubted(found):
    assert found.notes == ()
    return bool({finding.check for finding in found.findings} & CHECKS)


@pytest.mark.parametrize("make", TRICKS, ids=lambda make: make.__name__)
def test_a_trick(inspected, x, make):
    assert is_doubted(inspected(make(x), x))


@pytest.mark.usefixtures("on_cpu")
@pytest.mark.parametrize("make", OF_THE_CPU, ids=lambda make: make.__name__)
def test_a_trick_of_the_cpu(inspected, x, make):
    assert is_doubted(inspected(make(x), x))
