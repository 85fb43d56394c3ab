"""Muon (Keller Jordan, https://kellerjordan.github.io/posts/muon/): momentum whose update is made orthogonal, for matrices."""

import torch


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr, momentum=0.95, decay=0.05):
        super().__init__(params, dict(lr=lr, momentum=momentum, decay=decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            shapes = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(p.shape, []).append(p)
            for shape, ps in shapes.items():  # matrices of a shape together
                buf = [self.state[p].setdefault("momentum", torch.zeros_like(p)) for p in ps]
                for p, m in zip(ps, buf):
                    m.lerp_(p.grad, 1 - group["momentum"])
                X = orthogonal(torch.stack([p.grad.lerp(m, group["momentum"]) for p, m in zip(ps, buf)]))
                scale = max(1, shape[0] / shape[1]) ** 0.5
                for p, x in zip(ps, X):
                    p.mul_(1 - group["lr"] * group["decay"]).add_(x, alpha=-group["lr"] * scale)


def orthogonal(X):
    """the quintic Newton-Schulz iteration of the paper; X: (n, rows, cols)"""
    tall = X.shape[1] > X.shape[2]
    X = (X.mT if tall else X).bfloat16()
    X = X / (X.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        A = X @ X.mT
        X = 3.4445 * X + (-4.7750 * A + 2.0315 * A @ A) @ X
    return (X.mT if tall else X).float()
