"""What the kernels share: availability, building CUDA C++, and memory layout."""
