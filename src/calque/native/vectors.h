// Vectors of 16 numbers in float32, read from and written to float32 and bfloat16, on every processor.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

typedef float Floats __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
struct Half {  // bfloat16
    uint16_t bits;
};

constexpr int STRIP = 16;
constexpr float NOTHING = -std::numeric_limits<float>::infinity();

inline Floats all(float x) { return x - Floats{}; }

inline Floats load(const float* p) {
    Floats x;
    std::memcpy(&x, p, sizeof x);
    return x;
}

inline Floats load(const Half* p) {
#ifdef __AVX512F__
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16);
#else
    typedef uint16_t Shorts __attribute__((vector_size(32)));
    Shorts s;
    std::memcpy(&s, p, sizeof s);
    return (Floats)(__builtin_convertvector(s, Ints) << 16);
#endif
}

inline void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }

inline void store(Half* p, Floats x) {
#ifdef __AVX512BF16__
    _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    typedef uint16_t Shorts __attribute__((vector_size(32)));
    Words bits = (Words)x;
    Words rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    Words kept = (Words)(x == x) ? rounded : (Words{} + 0x7fc0);
    Shorts s = __builtin_convertvector(kept, Shorts);
    std::memcpy(p, &s, sizeof s);
#endif
}

inline float one(const float* p) { return *p; }
inline float one(const Half* p) {
    uint32_t bits = uint32_t(p->bits) << 16;
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}
inline void put(float* p, float x) { *p = x; }
inline void put(Half* p, float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, 4);
    p->bits = x == x ? uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16) : 0x7fc0;
}

// The first n of 16 numbers.
#ifdef __AVX512F__
inline __mmask16 first(int n) { return n >= STRIP ? 0xffff : n <= 0 ? 0 : (1 << n) - 1; }

inline Floats load_some(const float* p, int n, float rest = 0) {
    if (n >= STRIP) return load(p);
    return (Floats)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), first(n), p);
}

inline Floats load_some(const Half* p, int n, float rest = 0) {
    if (n >= STRIP) return load(p);
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p));
    return (Floats)_mm512_mask_slli_epi32((__m512i)all(rest), first(n), wide, 16);
}

inline void store_some(float* p, Floats x, int n) {
    if (n >= STRIP) return store(p, x);
    _mm512_mask_storeu_ps(p, first(n), (__m512)x);
}

inline void store_some(Half* p, Floats x, int n) {
    if (n >= STRIP) return store(p, x);
    Half all_of[STRIP];
    store(all_of, x);
    _mm256_mask_storeu_epi16(p, first(n), _mm256_loadu_si256((const __m256i*)all_of));
}
#else
template <class T>
inline Floats load_some(const T* p, int n, float rest = 0) {
    if (n >= STRIP) return load(p);
    alignas(64) float x[STRIP];
    for (int i = 0; i < STRIP; i++) x[i] = i < n ? one(p + i) : rest;
    return load(x);
}

template <class T>
inline void store_some(T* p, Floats x, int n) {
    if (n >= STRIP) return store(p, x);
    for (int i = 0; i < n; i++) put(p + i, x[i]);
}
#endif

inline Floats largest(Floats a, Floats b) { return a > b ? a : b; }

inline void store_pair(float* p, Floats x, Floats y) { store(p, x), store(p + STRIP, y); }
inline void store_pair(Half* p, Floats x, Floats y) {
#ifdef __AVX512BF16__
    const __m512bh both = _mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
    std::memcpy(p, &both, sizeof both);
#else
    store(p, x), store(p + STRIP, y);
#endif
}

// The numbers as a type holds them.
template <class T>
inline Floats as(Floats x) {
    if (sizeof(T) == 4) return x;
    Half kept[STRIP];
    store(kept, x);
    return load(kept);
}

// Whole numbers from -128 to 127, to the nearest, halves to even.
inline void store_bytes(int8_t* p, Floats x) {
#ifdef __AVX512F__
    const __m128i y = _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)x));
    std::memcpy(p, &y, sizeof y);
#else
    typedef int8_t Bytes __attribute__((vector_size(16)));
    __m256i low = _mm256_cvtps_epi32(((__m256*)&x)[0]), high = _mm256_cvtps_epi32(((__m256*)&x)[1]);
    Ints whole;
    std::memcpy(&whole, &low, 32), std::memcpy((char*)&whole + 32, &high, 32);
    Bytes y = __builtin_convertvector(whole, Bytes);
    std::memcpy(p, &y, sizeof y);
#endif
}

inline Floats size_of(Floats x) { return (Floats)((Ints)x & 0x7fffffff); }

// The largest sizes among so many numbers, a multiple of 64; the largest of these is the largest of all.
inline Floats sizes_of(const float* p, int64_t count) {
    Floats high[4]{};
    for (int64_t k = 0; k < count; k += 4 * STRIP)
        for (int part = 0; part < 4; part++) high[part] = largest(high[part], size_of(load(p + k + part * STRIP)));
    return largest(largest(high[0], high[1]), largest(high[2], high[3]));
}
inline Floats sizes_of(const Half* p, int64_t count) {
    // Of numbers without a sign, the order is that of their bits.
    typedef uint16_t Many __attribute__((vector_size(64)));
    Many high[2]{};
    for (int64_t k = 0; k < count; k += 4 * STRIP)
        for (int part = 0; part < 2; part++) {
            Many x;
            std::memcpy(&x, p + k + part * 2 * STRIP, sizeof x);
            x &= 0x7fff;
            high[part] = x > high[part] ? x : high[part];
        }
    high[0] = high[1] > high[0] ? high[1] : high[0];
    return largest(load((const Half*)&high[0]), load((const Half*)&high[0] + STRIP));
}

inline Floats root_of(Floats x) {
#ifdef __AVX512F__
    return (Floats)_mm512_sqrt_ps((__m512)x);
#else
    for (int i = 0; i < STRIP; i++) x[i] = std::sqrt(x[i]);
    return x;
#endif
}

inline float sum_of(Floats x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#else
    float s[8];
    for (int i = 0; i < 8; i++) s[i] = x[i] + x[i + 8];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
#endif
}

inline float max_of(Floats x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)x);
#else
    float m = x[0];
    for (int i = 1; i < STRIP; i++) m = std::max(m, x[i]);
    return m;
#endif
}

// Which of 16 numbers are above a bound, the first in the lowest bit.
inline uint32_t above(Floats x, float bound) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(bound), _CMP_GT_OQ);
#else
    __m256 b = _mm256_set1_ps(bound), lo, hi;
    std::memcpy(&lo, &x, 32);
    std::memcpy(&hi, (char*)&x + 32, 32);
    return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(lo, b, _CMP_GT_OQ))) | uint32_t(_mm256_movemask_ps(_mm256_cmp_ps(hi, b, _CMP_GT_OQ))) << 8;
#endif
}

inline bool any_above(Floats x, float bound) { return above(x, bound) != 0; }

inline Floats mixed(Floats a, Floats b, Ints places) { return (Floats)__builtin_shuffle((Ints)a, (Ints)b, places); }

// 16 vectors become the 16 vectors of their first numbers, their second ones and so on: numbers and vectors `STEP` apart change places.
template <int STEP>
inline void exchange(Floats* x, Ints low, Ints high) {
#pragma GCC unroll 16
    for (int i = 0; i < STRIP; i++)
        if (!(i & STEP)) {
            const Floats a = x[i], b = x[i | STEP];
            x[i] = mixed(a, b, low);
            x[i | STEP] = mixed(a, b, high);
        }
}

inline void transpose(Floats* x) {
    exchange<1>(x, Ints{0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30},
                 Ints{1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31});
    exchange<2>(x, Ints{0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29},
                 Ints{2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31});
    exchange<4>(x, Ints{0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27},
                 Ints{4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31});
    exchange<8>(x, Ints{0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23},
                 Ints{8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31});
}

// exp of numbers up to 0, to two units of the last place: 2^n p(r) with n whole and |r| <= log(2)/2.
inline Floats exp_of(Floats x) {
    x = x < -87.0f ? all(-87.0f) : x;  // NaN stays
    const float magic = 12582912.0f;
    Floats n = (x * 1.44269504f + magic) - magic;
    Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Floats p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return (Floats)((Ints)p + (__builtin_convertvector(n, Ints) << 23));
}

inline Floats sigmoid(Floats x) {
    const Floats e = exp_of(-size_of(x)), y = 1.0f / (1.0f + e);
    return x < 0 ? e * y : y;
}

// x P(x^2) / Q(x^2), fitted to tanh by its relative error: 2e-8 as numbers without end, a few units of the last place as computed.
// Beyond 9.02 tanh is one in float32.
inline Floats tanh_of(Floats x) {
    x = x > 9.02f ? all(9.02f) : x < -9.02f ? all(-9.02f) : x;  // NaN stays
    const Floats s = x * x;
    Floats p = s * 1.3319061e-8f + 2.0583473e-5f, q = s * 7.7620147e-7f + 3.2830920e-4f;
    p = p * s + 3.4940340e-3f, q = q * s + 2.5871071e-2f;
    p = p * s + 1.3379717e-1f, q = q * s + 4.6713033e-1f;
    p = p * s + 1.0f, q = q * s + 1.0f;
    const Floats y = x * p / q;
    return y > 1.0f ? all(1.0f) : y < -1.0f ? all(-1.0f) : y;
}

}  // namespace
