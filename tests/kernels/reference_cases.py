#!/usr/bin/env python3
"""Writes reference_cases.txt: operands and results of every operator of kernels/README.md.

Results come from PyTorch in float64, from ONNX's reference evaluator, or from numpy where neither
has the operator; never from mezzo. Needs torch, onnx and numpy; the tests read the text alone.

    python3 reference_cases.py > reference_cases.txt
"""
import pathlib
import runpy

import numpy
import onnx
import torch

print("# Operands and results of every operator, made by reference_cases.py with torch "
      f"{torch.__version__.split('+')[0]}, onnx {onnx.__version__} and numpy {numpy.__version__}.")
for part in ["elementwise", "nn", "pool", "movement", "index",  # in this order: one generator
             "functions", "image"]:
    runpy.run_path(str(pathlib.Path(__file__).with_name(f"reference_cases_{part}.py")))
