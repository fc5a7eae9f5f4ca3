"""The two ways from the lifted vectors of a batch's distinct ids through both norms and the head's first layer, and back.

Each plans a batch once and returns a function that runs forward and backward and returns the summed loss.
"""
import torch

from model import MOMENTUM, NORM_EPSILON

sigmoid_backward = torch.ops.aten.sigmoid_backward.grad_input
norm_backward = torch.ops.aten.native_batch_norm_backward


def plan_split(model, index, vectors, dvectors, head):
    """Norms over distinct ids, first layer per distinct id and side."""
    product, p, d = model.product, model.dense.p, model.dense.d
    rows, (n, top) = index.length, vectors.shape
    halves = lambda x: x.split(index.counts)
    weight = (index.repeats.to(model.dtype) / rows)[:, None]
    weights = [w.flatten() for w in halves(weight)]
    centred, s, scentred, x, dx, ds, square = model.zeros(7, n, top)
    h, stats = model.zeros(n, model.hidden), torch.zeros_like(model.running)
    factor, shift, factor_in, sum_product, sum_plain, pulled = model.zeros(6, 2, top)
    blend = torch.tensor([MOMENTUM, MOMENTUM * rows / (rows - 1)], dtype=model.dtype).view(1, 2, 1, 1)
    w_hidden, dw_hidden = p["hidden"].split(top), d["hidden"].split(top)
    layer = list(zip(halves(x), w_hidden, halves(h)))
    epsilon = NORM_EPSILON / 4 if model.ladder else NORM_EPSILON
    if not model.ladder:
        s, ds = vectors, dvectors

    def plan_centre(x, stat, out):
        """Weighted mean and variance per side; out = x − mean."""
        centres = list(zip(halves(x), [part.t() for part in halves(x)], weights, stat[0], halves(out)))
        spreads = list(zip([part.t() for part in halves(square)], weights, stat[1]))

        def centre():
            for part, turned, w, mean, target in centres:
                torch.mv(turned, w, out=mean)
                torch.sub(part, mean, out=target)
            torch.mul(out, out, out=square)
            for turned, w, variance in spreads:
                torch.mv(turned, w, out=variance)

        return centre

    def plan_scale(x, factors, shifts, out):
        """out = x·factor + shift"""
        views = list(zip(shifts, halves(x), factors, halves(out)))

        def scale():
            for shift, part, factor, target in views:
                torch.addcmul(shift, part, factor, out=target)

        return scale

    def plan_sum(x, out):
        views = list(zip(halves(x), out))

        def total():
            for part, target in views:
                torch.sum(part, 0, out=target)

        return total

    def plan_pull(dy, factors, x, coefficients, out):
        """out = dy·factor − weight·x·coefficient"""
        views = list(zip(halves(dy), factors, halves(out), halves(square), coefficients))

        def pull():
            torch.mul(x, weight, out=square)
            for part, factor, target, weighted, coefficient in views:
                torch.mul(part, factor, out=target)
                target.addcmul_(weighted, coefficient, value=-1)

        return pull

    centre, centre_in = plan_centre(vectors, stats[0], centred), plan_centre(s, stats[1], scentred)
    scale, scale_in = plan_scale(centred, factor, shift, s), plan_scale(scentred, factor_in, p["inputNorm"][1], x)
    total, total_dy = plan_sum(square, sum_product), plan_sum(dx, sum_plain)
    pull = plan_pull(dx, factor, centred, pulled, dvectors)
    pull_in = plan_pull(dx, factor_in, scentred, pulled, ds)
    shifts = list(zip(halves(dvectors), halves(weight), shift))
    if model.ladder:
        (gamma, beta), (dgamma, dbeta) = p["sideNorm"], d["sideNorm"]
    gamma_in, dgamma_in = p["inputNorm"][0], d["inputNorm"][0]
    variance, variance_in = stats[0, 1], stats[1, 1]
    back = list(zip([part.t() for part in halves(x)], [w.t() for w in w_hidden], dw_hidden, halves(dx)))

    def train():
        if model.ladder:
            centre()
            r = (variance + NORM_EPSILON).rsqrt_()
            torch.mul(r, gamma, out=factor).mul_(2)
            torch.mul(beta, 2, out=shift)
            scale()
            torch.sigmoid(s, out=s)  # û = 2s − 1, which the next norm undoes
        centre_in()
        r_in = (variance_in + epsilon).rsqrt_()
        torch.mul(r_in, gamma_in, out=factor_in)
        scale_in()
        model.running.mul_(1 - MOMENTUM).addcmul_(stats, blend)
        for part, w, target in layer:
            product(part, w, target)
        loss, dh = head(index.add_pairs(h))
        dh = index.sum_rows(dh)
        for part, (x_turned, w_turned, dw, target) in zip(halves(dh), back):
            product(x_turned, part, dw)
            product(part, w_turned, target)
        # input norm: dγ = Σ dx·x̂; the mean of dx is zero, since a norm follows
        torch.mul(dx, scentred, out=square)
        total()
        torch.mul(sum_product, r_in, out=dgamma_in)
        torch.mul(factor_in, r_in, out=pulled).mul_(dgamma_in)
        pull_in()
        if model.ladder:
            sigmoid_backward(ds, s, grad_input=dx)
            torch.mul(dx, centred, out=square)
            total()
            total_dy()
            sum_product.mul_(r)
            torch.mul(sum_product, 2, out=dgamma)
            torch.mul(sum_plain, 2, out=dbeta)
            torch.mul(factor, r, out=pulled).mul_(sum_product)
            pull()
            torch.mul(factor, sum_plain, out=shift)
            for target, w, change in shifts:
                target.addcmul_(w, change, value=-1)
        return loss

    return train


def plan_gathered(model, index, vectors, dvectors, head):
    """Gather the distinct vectors to rows × 2·top first; both side norms are then one native norm."""
    product, p, d = model.product, model.dense.p, model.dense.d
    rows, width = index.length, 2 * model.sizes[-1]
    x, s, dx = model.zeros(3, rows, width)
    h = model.zeros(rows, model.hidden)
    running = model.running.view(2, 2, width)
    epsilon = NORM_EPSILON / 4 if model.ladder else NORM_EPSILON
    flat = lambda name: p[name].view(2, width)

    def train():
        index.gather(vectors, x)
        value = x
        if model.ladder:
            gamma, beta = flat("sideNorm") * 2
            y, m, r = torch.native_batch_norm(x, gamma, beta, *running[0], True, MOMENTUM, NORM_EPSILON)
            value = torch.sigmoid(y, out=s)
        gamma_in, beta_in = flat("inputNorm")
        inputs, m_in, r_in = torch.native_batch_norm(value, gamma_in, beta_in, *running[1], True, MOMENTUM, epsilon)
        product(inputs, p["hidden"], h)
        loss, dh = head(h)
        product(inputs.t(), dh, d["hidden"])
        product(dh, p["hidden"].t(), dx)
        saved = (*running[1], m_in, r_in)
        dv, dg, _ = norm_backward(dx, value, gamma_in, *saved, True, epsilon, [True, True, False])
        d["inputNorm"][0].view(-1).copy_(dg)
        if model.ladder:
            sigmoid_backward(dv, s, grad_input=dx)
            saved = (*running[0], m, r)
            dv, dg, db = norm_backward(dx, x, gamma, *saved, True, NORM_EPSILON, [True, True, True])
            torch.mul(dg, 2, out=d["sideNorm"][0].view(-1))
            torch.mul(db, 2, out=d["sideNorm"][1].view(-1))
        index.scatter(dv, dvectors)
        return loss

    return train
