# Measures what a card does under load, with torch: copies between host and
# card, copies on the card, a bf16 matrix product, an all-reduce over all cards
# that it sees. Prints one JSON object; what failed is said by name.
import json, os, sys

# An all-reduce of a probe needs no multicast, and machines that share a switch
# are better off without it.
os.environ.setdefault("NCCL_NVLS_ENABLE", "0")
import torch


def best(f, n=5):
    """Seconds of the fastest of n runs, after two to warm up."""
    for _ in range(2):
        f()
    torch.cuda.synchronize()
    out = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        f()
        b.record()
        torch.cuda.synchronize()
        out.append(a.elapsed_time(b) / 1e3)
    return min(out)


def card(i):
    torch.cuda.set_device(i)
    uuid = str(torch.cuda.get_device_properties(i).uuid)
    out = {"uuid": uuid if uuid.startswith("GPU-") else "GPU-" + uuid, "failed": {}}

    def host_copies():
        size = 1 << 28
        pinned = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        there = torch.empty(size, dtype=torch.uint8, device="cuda")
        out["copy_to_device"] = size / best(lambda: there.copy_(pinned, non_blocking=True))
        out["copy_from_device"] = size / best(lambda: pinned.copy_(there, non_blocking=True))

    def device_copy():
        size = min(1 << 31, torch.cuda.mem_get_info(i)[0] // 8)
        a = torch.zeros(size, dtype=torch.uint8, device="cuda")
        b = torch.empty_like(a)
        out["copy_on_device"] = 2 * size / best(lambda: b.copy_(a))

    def product():
        n = 8192
        a = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
        b = torch.randn(n, n, device="cuda", dtype=torch.bfloat16)
        out["matmul_bf16"] = 2 * n**3 / best(lambda: torch.mm(a, b), 10)

    for names, f in ((("copy_to_device", "copy_from_device"), host_copies), (("copy_on_device",), device_copy), (("matmul_bf16",), product)):
        try:
            f()
        except Exception as e:  # said by name; the others go on
            for n in names:
                if n not in out:
                    out["failed"][n] = f"{type(e).__name__}: {e}"[:300]
        torch.cuda.empty_cache()
    return out


def rank(i, n, init, out):
    import torch.distributed as dist

    torch.cuda.set_device(i)
    dist.init_process_group("nccl", init_method="file://" + init, rank=i, world_size=n)
    size = 1 << 28
    t = torch.full((size // 4,), float(i + 1), device="cuda")
    dist.all_reduce(t)
    torch.cuda.synchronize()
    right = bool((t == n * (n + 1) / 2).all().item())
    seconds = best(lambda: dist.all_reduce(t), 10)
    if i == 0:
        with open(out, "w") as f:
            json.dump({"ranks": n, "bus": size / seconds * 2 * (n - 1) / n, "wrong": not right}, f)
    dist.destroy_process_group()


def pair(n):
    import tempfile
    import torch.multiprocessing as mp

    with tempfile.TemporaryDirectory() as d:
        try:
            mp.spawn(rank, args=(n, d + "/init", d + "/out"), nprocs=n)
            with open(d + "/out") as f:
                return json.load(f)
        except Exception as e:
            return {"ranks": n, "failed": f"{type(e).__name__}: {e}"[-300:]}


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit("torch %s sees no CUDA device" % torch.__version__)
    n = torch.cuda.device_count()
    out = {"torch": torch.__version__, "cuda": torch.version.cuda or "", "gpus": [card(i) for i in range(n)]}
    if n > 1:
        out["pair"] = pair(n)
    json.dump(out, sys.stdout)
