"""The controller of ESAPN and AutoEmb (method §8): a 32-wide embedding of the frequency → norm, beside a second input →
linear 512 → norm → tanh → linear; Adam 1e-4, the embedding's rows stepped only when met."""
import numpy as np
import torch
import torch.nn.functional as F

from model import BETA1, BETA2, EPSILON, L2, MOMENTUM, NORM_EPSILON
from padded import LazyRows

CAP, WIDTH, HIDDEN, RATE = 10_000, 32, 512, 1e-4


class Controller:
    def __init__(self, given, name, second, outputs):
        inputs = WIDTH + second
        rows = given.start[f"{name}.frequencies"].clone() if given.start else torch.randn(CAP + 1, WIDTH)
        self.frequencies = LazyRows(rows, RATE)
        parts = [("frequency", WIDTH), ("second", second)]
        weights = [given.uniform(f"{name}.controller.hidden.{part}", (HIDDEN, width), inputs) for part, width in parts]
        bias = given.uniform(f"{name}.controller.hidden.bias", (HIDDEN,), inputs)
        output = given.linear(f"{name}.controller.output", outputs, HIDDEN)
        values = [torch.cat(weights, 1), bias, output["weight"], output["bias"]]
        values += [torch.ones(WIDTH), torch.zeros(WIDTH), torch.ones(HIDDEN), torch.zeros(HIDDEN)]
        self.parameters = [value.requires_grad_() for value in values]
        self.running = [torch.zeros(WIDTH), torch.ones(WIDTH), torch.zeros(HIDDEN), torch.ones(HIDDEN)]
        options = {"lr": RATE, "betas": (BETA1, BETA2), "eps": EPSILON, "weight_decay": L2}
        self.optimizer = torch.optim.Adam(self.parameters, **options, foreach=True)

    def network(self, rows, second, training):
        weight, bias, out, out_bias, gamma, beta, gamma_hidden, beta_hidden = self.parameters
        mean, variance, mean_hidden, variance_hidden = self.running
        norm = lambda x, *parts: F.batch_norm(x, *parts, training, MOMENTUM, NORM_EPSILON)
        x = torch.cat([norm(rows, mean, variance, gamma, beta), second], 1)
        x = norm(F.linear(x, weight, bias), mean_hidden, variance_hidden, gamma_hidden, beta_hidden)
        return F.linear(torch.tanh(x), out, out_bias)

    def forward(self, frequencies, second):
        """Logits by batch statistics; `learn` follows."""
        distinct, index = np.unique(np.minimum(frequencies, CAP), return_inverse=True)
        self.met = torch.from_numpy(distinct)
        self.rows = self.frequencies.weight[self.met].requires_grad_()
        return self.network(self.rows[torch.from_numpy(index)], second, True)

    def learn(self, loss):
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.frequencies.step(self.met, self.rows.grad)

    @torch.no_grad()
    def judge(self, frequencies, second):
        """Logits by running statistics."""
        return self.network(self.frequencies.weight[torch.from_numpy(np.minimum(frequencies, CAP))], second, False)
