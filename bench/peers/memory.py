"""How the peers keep memory."""
import ctypes


def keep_memory():
    """Tell malloc to reuse large blocks rather than hand them back to the system after every operation."""
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(-3, 1 << 30)  # M_MMAP_THRESHOLD
        libc.mallopt(-1, 1 << 30)  # M_TRIM_THRESHOLD
    except AttributeError:
        pass
