"""Honest steps of training: gradients that change evenly, are accumulated for a few calls, or are sparse."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
F, nn = torch.nn.functional, torch.nn


def softmax(x):
    return torch.softmax(x, -1)


def rnd(x, *shape, n=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(n)).to(x.device)


def test_functional_call(silent, x):
    m = nn.Sequential(nn.Linear(128, 16), nn.Tanh(), nn.Linear(16, 2)).to(x.device)
    p = {k: v.detach() for k, v in m.named_parameters()}
    silent(lambda p, x: torch.func.functional_call(m, p, (x,)), p, x)


def test_stacked_ensemble(silent, x):
    ms = [nn.Linear(128, 8).to(x.device) for _ in range(3)]
    p, b = torch.func.stack_module_state(ms)
    base = ms[0]
    silent(
        lambda x: torch.func.vmap(lambda p, b, x: torch.func.functional_call(base, (p, b), (x,)), (0, 0, None))(
            p, b, x
        ),
        x,
    )


def test_grad_scaler(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    sc = torch.amp.GradScaler(x.device.type, init_scale=128.0)

    def step(x):
        o.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16):
            loss = m(x).float().square().mean()
        sc.scale(loss).backward()
        sc.step(o)
        sc.update()
        return loss.detach()

    silent(step, x, allow=("sync", "pageable"))


def test_ema_weights(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    e = [p.detach().clone() for p in m.parameters()]
    o = torch.optim.SGD(m.parameters(), 1e-2)

    def step(x):
        o.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        o.step()
        torch._foreach_lerp_(e, [p.detach() for p in m.parameters()], 0.1)
        return F.linear(x, *e)

    silent(step, x)


def test_averaged_model(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    a = torch.optim.swa_utils.AveragedModel(m)
    o = torch.optim.SGD(m.parameters(), 1e-2)

    def step(x):
        o.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        o.step()
        a.update_parameters(m)
        return loss.detach()

    silent(step, x)


def test_accumulate_in_call(silent, x):
    m = nn.Linear(128, 4).to(x.device)

    def step(x):
        m.zero_grad(set_to_none=False)
        for part in x.chunk(4):
            (m(part).square().mean() / 4).backward()
        return m.weight.grad

    silent(step, x)


def test_accumulate_every_4(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    o = torch.optim.SGD(m.parameters(), 1e-3)
    t = itertools.count(1)

    def step(x):
        loss = m(x).square().mean() / 4
        loss.backward()
        if next(t) % 4 == 0:
            o.step()
            o.zero_grad()
        return loss.detach()

    silent(step, x)


def test_clip(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    o = torch.optim.AdamW(m.parameters(), foreach=True)

    def step(x):
        o.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        n = nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        return loss.detach(), n

    silent(step, x)


def test_lbfgs(silent, x):
    w = nn.Parameter(rnd(x, 128))
    o = torch.optim.LBFGS([w], max_iter=3, history_size=10)

    def step(x):
        def closure():
            o.zero_grad()
            loss = (x @ w - 1).square().mean()
            loss.backward()
            return loss

        return o.step(closure).detach()

    silent(step, x, allow=("sync",))


def test_fused_adam(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    o = torch.optim.Adam(m.parameters(), fused=True)

    def step(x):
        o.zero_grad()
        m(x).square().mean().backward()
        o.step()

    silent(step, x)


def test_muon_like(silent, x):
    w = rnd(x, 16, 16)
    buf = torch.zeros_like(w)

    def step(g):
        buf.mul_(0.9).add_(g)
        y = buf / buf.norm()
        for _ in range(3):
            a = y @ y.t()
            y = 1.5 * y - 0.5 * a @ y
        w.sub_(y, alpha=0.01)
        return w

    silent(step, x[:16, :16].contiguous())


def test_sparse_embedding(silent, x):
    e = nn.Embedding(64, 16, sparse=True).to(x.device)
    o = torch.optim.SparseAdam(e.parameters())
    i = torch.randint(0, 64, (30,), generator=torch.Generator().manual_seed(0)).to(x.device)

    def step(i):
        o.zero_grad()
        loss = e(i).square().mean()
        loss.backward()
        o.step()
        return loss.detach()

    silent(step, i, allow=("sync",))


def test_compiled_step(silent, x):
    torch._dynamo.reset()
    m = nn.Linear(128, 8).to(x.device)
    f = torch.compile(m, backend="aot_eager")

    def step(x):
        m.zero_grad()
        loss = f(x).square().mean()
        loss.backward()
        return loss.detach()

    step(x)
    silent(step, x)


def test_hooks_returning(silent, x):
    m = nn.Sequential(nn.Linear(128, 16), nn.ReLU()).to(x.device)
    seen = {}
    m[0].register_forward_hook(lambda mod, i, o: seen.__setitem__("act", o.detach()))

    def fn(x):
        m(x)
        return seen["act"]

    silent(fn, x)


def test_grad_hooks(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    norms = []
    m.weight.register_hook(lambda g: norms.append(g.norm().detach()) if len(norms) < 1000 else None)

    def step(x):
        m.zero_grad()
        m(x).square().mean().backward()
        return m.weight.grad

    silent(step, x)


def test_post_accumulate(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    o = torch.optim.SGD(m.parameters(), 1e-3)

    def hook(p):
        o.step()
        o.zero_grad()

    m.weight.register_post_accumulate_grad_hook(hook)

    def step(x):
        loss = m(x).square().mean()
        loss.backward()
        return loss.detach()

    silent(step, x)


def test_saved_tensor_hooks(silent, x):
    def fn(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            y = x.exp().sin()
        return torch.autograd.grad(y.sum(), x)

    silent(fn, x.clone().requires_grad_())


def test_function_saving(silent, x):
    class Exp(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    silent(lambda x: torch.autograd.grad(Exp.apply(x).square().sum(), x)[0], x.clone().requires_grad_())


def test_adam_plain(silent, x):
    m = nn.Linear(128, 4).to(x.device)
    o = torch.optim.Adam(m.parameters(), lr=1e-4)

    def step(x):
        o.zero_grad()
        loss = m(x).square().mean()
        loss.backward()
        o.step()
        return loss.detach()

    silent(step, x)


def test_sign_sgd(silent, x):
    w = nn.Parameter(rnd(x, 128, 4))

    def step(x):
        w.grad = None
        loss = (x @ w).square().mean()
        loss.backward()
        with torch.no_grad():
            w.sub_(w.grad.sign(), alpha=1e-4)
        return loss.detach()

    silent(step, x)


def test_gradient_ascent(silent, x):
    w = nn.Parameter(rnd(x, 128, 4))
    o = torch.optim.SGD([w], 1e-3, maximize=True)

    def step(x):
        o.zero_grad()
        loss = w.square().mean() + (x @ w).mean() * 1e-3
        loss.backward()
        o.step()
        return loss.detach()

    silent(step, x)


def test_zero_grad_in_place(silent, x):
    w = nn.Parameter(rnd(x, 128, 4))
    o = torch.optim.SGD([w], 1e-3)

    def step(x):
        o.zero_grad(set_to_none=False)
        (x @ w).square().mean().backward()
        o.step()

    silent(step, x)


def test_step_then_zero(silent, x):
    w = nn.Parameter(rnd(x, 128, 4))
    o = torch.optim.SGD([w], 1e-3)

    def step(x):
        (x @ w).square().mean().backward()
        o.step()
        o.zero_grad()

    silent(step, x)


def test_grad_copied_flat(silent, x):
    w = nn.Parameter(rnd(x, 128, 4))
    flat = torch.zeros(512, device=x.device)

    def step(x):
        w.grad = flat.view(128, 4)
        flat.zero_()
        (x @ w).square().mean().backward()
        return flat

    silent(step, x)


def test_grad_bucket_average(silent, x):
    m = nn.Sequential(nn.Linear(128, 8), nn.Linear(8, 2)).to(x.device)
    buf = torch.zeros(sum(p.numel() for p in m.parameters()), device=x.device)

    def step(x):
        m.zero_grad()
        m(x).square().mean().backward()
        o = 0
        for p in m.parameters():
            buf[o : o + p.numel()].copy_(p.grad.view(-1))
            o += p.numel()
        return buf / 2

    silent(step, x)


def test_delayed_update(silent, x):
    """Stale-gradient pipeline: apply the gradient of the call before."""
    w = rnd(x, 128, 4)
    st = {"g": torch.zeros(128, 4, device=x.device)}

    def step(x):
        with torch.no_grad():
            w.sub_(st["g"], alpha=1e-3)
        st["g"] = x.t() @ (x @ w)
        return (x @ w).square().mean()

    silent(step, x)


def test_gan_step(silent, x):
    g, d = nn.Linear(16, 128).to(x.device), nn.Linear(128, 1).to(x.device)
    og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())

    def step(x):
        z = torch.randn(64, 16, device=x.device)
        od.zero_grad()
        (F.softplus(d(g(z).detach())).mean() + F.softplus(-d(x)).mean()).backward()
        od.step()
        og.zero_grad()
        loss = F.softplus(-d(g(z))).mean()
        loss.backward()
        og.step()
        return loss.detach()

    silent(step, x)


def test_target_network(silent, x):
    m, t = nn.Linear(128, 4).to(x.device), nn.Linear(128, 4).to(x.device)
    n = itertools.count()

    def f(x):
        if next(n) % 10 == 0:
            t.load_state_dict(m.state_dict())
        return t(x).max(-1).values

    silent(f, x)


def test_vq_codebook(silent, x):
    cb = rnd(x, 16, 128)
    n = torch.ones(16, device=x.device)

    def f(x):
        i = torch.cdist(x, cb).argmin(-1)
        oh = F.one_hot(i, 16).float()
        n.mul_(0.99).add_(oh.sum(0), alpha=0.01)
        cb.mul_(0.99).add_(oh.t() @ x / n[:, None], alpha=0.01)
        return cb[i]

    silent(f, x, allow=("sync",))


def test_momentum_encoder_queue(silent, x):
    q = F.normalize(rnd(x, 256, 128))
    p = itertools.count()

    def f(x):
        k = F.normalize(x, dim=-1)
        logits = k @ q.t()
        i = next(p) * 64 % 256
        q[i : i + 64] = k
        return logits

    silent(f, x)


def test_moe_bias_balance(silent, x):
    b = torch.zeros(8, device=x.device)
    w = rnd(x, 128, 8)

    def f(x):
        sc = (x @ w).sigmoid()
        e = (sc + b).topk(2).indices
        load = torch.zeros(8, device=x.device).scatter_add_(0, e.view(-1), torch.ones(128, device=x.device))
        b.add_((load.mean() - load).sign(), alpha=1e-3)
        return sc.gather(1, e)

    silent(f, x)


OPTIMISERS = ["Adagrad", "RMSprop", "Adamax", "NAdam", "RAdam", "Rprop", "ASGD", "Adadelta", "Adafactor"]


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_with_a_schedule(silent, x, name):
    layer = nn.Linear(128, 4).to(x.device)
    optimiser = getattr(torch.optim, name)(layer.parameters())
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, 5)

    def step(x):
        optimiser.zero_grad()
        loss = layer(x).square().mean()
        loss.backward()
        optimiser.step()
        schedule.step()
        return loss.detach()

    silent(step, x)


@pytest.mark.parametrize("calls", [2, 4, 6, 10])
@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
def test_averages_that_are_frozen_after_the_first_calls(silent, x, momentum, calls):
    norm, turns = nn.BatchNorm1d(128, momentum=momentum).to(x.device), itertools.count()

    def normalised(x):
        norm.train()
        if next(turns) < calls:
            norm(x)
        norm.eval()
        return norm(x)

    silent(normalised, x)
