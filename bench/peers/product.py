"""Which matrix product the hand-written step uses."""
import ctypes
import time

import torch


def onednn_product():
    """out = a @ b by the oneDNN that torch links, often faster than its BLAS, above all than the reference one (2 to 5 GFLOP/s)."""
    sgemm = ctypes.CDLL("libdnnl.so.2").dnnl_sgemm
    c, n, f, p = ctypes.c_char, ctypes.c_int64, ctypes.c_float, ctypes.c_void_p
    sgemm.argtypes = [c, c, n, n, n, f, p, n, p, n, f, p, n]

    def layout(x):
        return (b"N", x.stride(0)) if x.stride(1) == 1 else (b"T", x.stride(1))

    def product(a, b, out):
        (ta, lda), (tb, ldb) = layout(a), layout(b)
        (m, k), width = a.shape, b.shape[1]
        pa, pb = a.data_ptr(), b.data_ptr()
        sgemm(ta, tb, m, width, k, 1.0, pa, lda, pb, ldb, 0.0, out.data_ptr(), out.stride(0))

    return product


def torch_product(a, b, out):
    torch.mm(a, b, out=out)


products = {"torch.mm": torch_product}
try:
    products["oneDNN"] = onednn_product()
except (OSError, AttributeError):
    pass


def fastest_product():
    """The faster of torch.mm, by whatever BLAS it has, and oneDNN. With the GFLOP/s reached."""
    a, b, out = torch.randn(500, 256), torch.randn(256, 512), torch.empty(500, 512)

    def seconds(product):
        times = []
        for _ in range(30):
            start = time.perf_counter()
            product(a, b, out)
            times.append(time.perf_counter() - start)
        return min(times)

    timed = {name: seconds(product) for name, product in products.items()}
    name = min(timed, key=timed.get)
    return products[name], name, 2 * a.numel() * b.shape[1] / timed[name] / 1e9
