#!/usr/bin/env python3
"""Times a training step of one network of nets.py in PyTorch on the GPU.

    torch_side.py NETWORK OUT.json STEPS WAY_PRECISION...

WAY is eager or compiled (torch.compile), PRECISION is fp32 (without TF32), bf16 or fp16 (autocast;
with GradScaler). AdamW in its fused form, images channels-last. Writes, after every one, median
milliseconds between the ends of two steps, as the device's clock has them, the peak of the
allocator's memory and the seconds that the first step took; what fails is told by its error.
"""
import json
import statistics
import sys
import time

try:
    import torch
except ImportError as error:
    sys.exit(f"no PyTorch here: {error}")

from nets import NETS, example

MOST_WARMUP = 6
DTYPES = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def measure(name, dtype, compiled, steps):
    make, inputs, batch = NETS[name]
    torch.manual_seed(0)
    net = make().cuda().train()
    batch_tensors = [t.cuda() for t in example(inputs, batch)]
    if batch_tensors[0].dim() == 4:
        net = net.to(memory_format=torch.channels_last)
        batch_tensors[0] = batch_tensors[0].contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=True)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    run = torch.compile(net) if compiled else net
    torch.cuda.reset_peak_memory_stats()
    ends, first_s = [], None
    begin = time.perf_counter()
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = run(*batch_tensors)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        ends.append(torch.cuda.Event(enable_timing=True))
        ends[-1].record()
        if first_s is None:
            torch.cuda.synchronize()
            first_s = time.perf_counter() - begin
    torch.cuda.synchronize()
    times = [one.elapsed_time(next_one) for one, next_one in zip(ends, ends[1:])]
    return {"step_ms": statistics.median(times[min(MOST_WARMUP, steps // 2):] or times),
            "last_loss": float(loss), "first_step_s": first_s,
            "peak_bytes": torch.cuda.max_memory_allocated(),
            "reserved_bytes": torch.cuda.max_memory_reserved()}


def main():
    name, out, steps, *variants = sys.argv[1:]
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    result = {"torch": torch.__version__, "cudnn": torch.backends.cudnn.version()}
    for variant in variants:
        way, precision = variant.split("_")
        try:
            result[variant] = measure(name, DTYPES[precision], way == "compiled", int(steps))
        except Exception as error:  # the other figures are still wanted
            result[variant] = {"error": f"{type(error).__name__}: {error}"[:2000]}
        torch._dynamo.reset()
        torch.cuda.empty_cache()
        with open(out, "w") as file:  # what there is, should the time run out
            json.dump(result, file)


if __name__ == "__main__":
    main()
