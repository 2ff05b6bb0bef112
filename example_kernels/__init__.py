"""Kernels to learn from, with the performance tests that guard them: GeLU, softmax, attention and a training step.

Importing this package costs nothing; each operation imports torch, and its kernels import Triton or build CUDA C++,
only when they are used.
"""
