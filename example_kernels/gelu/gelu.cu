// GeLU, forward and backward, for float32, float16 and bfloat16.
//
//     gelu(x) = x · Φ(x);   tanh form: Φ(x) ≈ 1 / (1 + 2^(−2u·log₂e)),  u = √(2/π) (x + 0.044715 x³)
//                           erf form:  Φ(x) = ½ (1 + erf(x / √2))
//     dx = dy · (Φ(x) + x · Φ'(x))
//
// Each comes scalar, one thread an element, and vectorised: one 128-bit access a thread for the main part, and one more
// thread that walks the tail of fewer than 16 bytes. Arithmetic is float32 throughout.

#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace {

constexpr int kThreads = 256;
constexpr int kVectorBytes = 16;

template <typename T>
struct alignas(kVectorBytes) Vector {
    static constexpr int kSize = kVectorBytes / sizeof(T);
    T values[kSize];
};

__device__ float exp2_approx(float x) {
    float result;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x));
    return result;
}

__device__ float sigmoid_2u(float x) {
    return __fdividef(1.0f, 1.0f + exp2_approx(x * fmaf(-0.1029432397f, x * x, -2.3022081985f)));
}

// 1 − Φ(|x|) to 1e-7, by Abramowitz and Stegun 7.1.26: half the instructions of erff.
__device__ float upper_tail(float x) {
    const float z = fabsf(x) * 0.7071067812f;
    const float t = __fdividef(1.0f, fmaf(0.3275911f, z, 1.0f));
    const float series =
        t * fmaf(t, fmaf(t, fmaf(t, fmaf(t, 0.530702714f, -0.726576013f), 0.710706871f), -0.142248368f), 0.127414796f);
    return series * exp2_approx(-1.4426950409f * z * z);
}

// Results that are rounded to 16 bits have no use for erf to the last bit of 32.
template <typename T, bool kTanh>
__device__ float gelu(float x) {
    if constexpr (kTanh) return x * sigmoid_2u(x);
    if constexpr (sizeof(T) == 2) return fmaxf(x, 0.0f) - fminf(fabsf(x), 64.0f) * upper_tail(x);
    return 0.5f * x * (1.0f + erff(x * 0.7071067812f));
}

template <bool kTanh>
__device__ float gelu_slope(float x) {
    // Beyond ±16 the slope is 0 or 1 to every digit; clamping keeps 0 · ∞ away.
    const float near = fminf(fmaxf(x, -16.0f), 16.0f);
    if constexpr (kTanh) {
        const float sigmoid = sigmoid_2u(x);
        return sigmoid + near * sigmoid * (1.0f - sigmoid) * fmaf(0.2140644488f, near * near, 1.5957691216f);
    }
    const float density = 0.3989422804f * exp2_approx(-0.7213475204f * near * near);
    return 0.5f * (1.0f + erff(x * 0.7071067812f)) + near * density;
}

// What the two kernels below apply to each element. Pointers are to whole tensors, `at` is the element.
template <typename T, bool kTanh>
struct Forward {
    const T* x;
    T* y;
    __device__ void element(int64_t at) const { y[at] = T(gelu<T, kTanh>(float(x[at]))); }
    __device__ void vector(int64_t at) const {
        Vector<T> v = reinterpret_cast<const Vector<T>*>(x)[at];
#pragma unroll
        for (int i = 0; i < Vector<T>::kSize; ++i) v.values[i] = T(gelu<T, kTanh>(float(v.values[i])));
        reinterpret_cast<Vector<T>*>(y)[at] = v;
    }
};

template <typename T, bool kTanh>
struct Backward {
    const T* dy;
    const T* x;
    T* dx;
    __device__ void element(int64_t at) const { dx[at] = T(float(dy[at]) * gelu_slope<kTanh>(float(x[at]))); }
    __device__ void vector(int64_t at) const {
        const Vector<T> g = reinterpret_cast<const Vector<T>*>(dy)[at];
        Vector<T> v = reinterpret_cast<const Vector<T>*>(x)[at];
#pragma unroll
        for (int i = 0; i < Vector<T>::kSize; ++i)
            v.values[i] = T(float(g.values[i]) * gelu_slope<kTanh>(float(v.values[i])));
        reinterpret_cast<Vector<T>*>(dx)[at] = v;
    }
};

template <typename Work>
__global__ void __launch_bounds__(kThreads) scalar_kernel(Work work, int64_t n) {
    const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    if (at < n) work.element(at);
}

template <int kWidth, typename Work>
__global__ void __launch_bounds__(kThreads) vector_kernel(Work work, int64_t n) {
    const int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
    const int64_t vectors = n / kWidth;
    if (at < vectors) {
        work.vector(at);
    } else if (at == vectors) {
        for (int64_t i = vectors * kWidth; i < n; ++i) work.element(i);
    }
}

template <typename T, typename Work>
cudaError_t launch(Work work, int64_t n, bool vectorised, cudaStream_t stream) {
    constexpr int kWidth = Vector<T>::kSize;
    const int64_t threads = vectorised ? n / kWidth + 1 : n;
    const unsigned blocks = unsigned((threads + kThreads - 1) / kThreads);
    if (vectorised) {
        vector_kernel<kWidth><<<blocks, kThreads, 0, stream>>>(work, n);
    } else {
        scalar_kernel<<<blocks, kThreads, 0, stream>>>(work, n);
    }
    return cudaGetLastError();
}

template <typename T>
cudaError_t forward(const void* x, void* y, int64_t n, bool tanh, bool vectorised, cudaStream_t stream) {
    const T* in = static_cast<const T*>(x);
    T* out = static_cast<T*>(y);
    if (tanh) return launch<T>(Forward<T, true>{in, out}, n, vectorised, stream);
    return launch<T>(Forward<T, false>{in, out}, n, vectorised, stream);
}

template <typename T>
cudaError_t backward(const void* dy, const void* x, void* dx, int64_t n, bool tanh, bool vectorised,
                     cudaStream_t stream) {
    const T* gradient = static_cast<const T*>(dy);
    const T* in = static_cast<const T*>(x);
    T* out = static_cast<T*>(dx);
    if (tanh) return launch<T>(Backward<T, true>{gradient, in, out}, n, vectorised, stream);
    return launch<T>(Backward<T, false>{gradient, in, out}, n, vectorised, stream);
}

}  // namespace

// dtype: 0 float32, 1 float16, 2 bfloat16. Each returns a cudaError_t; the work is queued on `stream`.

extern "C" int gelu_forward(const void* x, void* y, int64_t n, int dtype, int tanh, int vectorised, void* stream) {
    const auto on = static_cast<cudaStream_t>(stream);
    if (dtype == 0) return forward<float>(x, y, n, tanh, vectorised, on);
    if (dtype == 1) return forward<__half>(x, y, n, tanh, vectorised, on);
    return forward<__nv_bfloat16>(x, y, n, tanh, vectorised, on);
}

extern "C" int gelu_backward(const void* dy, const void* x, void* dx, int64_t n, int dtype, int tanh, int vectorised,
                             void* stream) {
    const auto on = static_cast<cudaStream_t>(stream);
    if (dtype == 0) return backward<float>(dy, x, dx, n, tanh, vectorised, on);
    if (dtype == 1) return backward<__half>(dy, x, dx, n, tanh, vectorised, on);
    return backward<__nv_bfloat16>(dy, x, dx, n, tanh, vectorised, on);
}

extern "C" const char* gelu_error_text(int code) { return cudaGetErrorString(static_cast<cudaError_t>(code)); }
