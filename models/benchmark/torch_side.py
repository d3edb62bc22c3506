#!/usr/bin/env python3
"""Times a training step of one network of nets.py in PyTorch on the GPU.

    torch_side.py NETWORK OUT.json [STEPS]

Eager and compiled (torch.compile), in float32 without TF32 and under autocast in bfloat16 and
float16 (with GradScaler), AdamW in its fused form, images channels-last. Writes median milliseconds
of a step and the peak of the allocator's memory; what fails is told by its error.
"""
import json
import statistics
import sys
import time

import torch

from nets import NETS, example

WARMUP = 6
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
    times = []
    for _ in range(steps):
        torch.cuda.synchronize()
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype or torch.bfloat16, enabled=dtype is not None):
            loss = run(*batch_tensors)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - start) * 1000)
    return {"step_ms": statistics.median(times[WARMUP:]), "last_loss": float(loss),
            "peak_bytes": torch.cuda.max_memory_allocated()}


def main():
    name, out = sys.argv[1:3]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 24
    if not torch.cuda.is_available():
        sys.exit("PyTorch finds no CUDA device")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    result = {"torch": torch.__version__}
    for way in ("eager", "compiled"):
        for precision, dtype in DTYPES.items():
            try:
                result[f"{way}_{precision}"] = measure(name, dtype, way == "compiled", steps)
            except Exception as error:  # the other figures are still wanted
                result[f"{way}_{precision}"] = {"error": f"{type(error).__name__}: {error}"[:500]}
            torch._dynamo.reset()
            torch.cuda.empty_cache()
            with open(out, "w") as file:  # what there is, should the time run out
                json.dump(result, file)


if __name__ == "__main__":
    main()
