// What is done with vectors of numbers, for every processor alike.

#pragma once

#include <algorithm>
#include <cmath>

#if defined(__AVX512F__)
#include "avx512.h"
#elif defined(__AVX2__)
#include "avx2.h"
#else
#include "neon.h"
#endif

namespace {

// The first n numbers of a vector, of any n.
template <class T>
inline Floats load_some(const T* p, int n, float rest = 0) {
    return n >= STRIP ? load(p) : load_first(p, n, rest);
}

template <class T>
inline void store_some(T* p, Floats x, int n) {
    n >= STRIP ? store(p, x) : store_first(p, x, n);
}

// As they are.
template <class T>
inline void copy_some(T* to, const T* from, int n) {
    if (n >= STRIP) std::memcpy(to, from, STRIP * sizeof(T));
    else std::memcpy(to, from, size_t(n) * sizeof(T));
}

// One instruction each; of a NaN, b.
inline Floats largest(Floats a, Floats b) { return a > b ? a : b; }
inline Floats smallest(Floats a, Floats b) { return a < b ? a : b; }

inline void store_pair(float* p, Floats x, Floats y) { store(p, x), store(p + STRIP, y); }

// The numbers as a type holds them.
template <class T>
inline Floats as(Floats x) {
    return sizeof(T) == 4 ? x : as_half(x);
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
    typedef uint16_t Many __attribute__((vector_size(STRIP * 4)));
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

inline bool any_above(Floats x, float bound) { return above(x, bound) != 0; }

// Number `places[i]` of those of a, with those of b behind them.
inline Floats mixed(Floats a, Floats b, Ints places) {
#ifdef __clang__
    Floats c;
    for (int i = 0; i < STRIP; i++) c[i] = (places[i] & STRIP ? b : a)[places[i] & (STRIP - 1)];
    return c;
#else
    return (Floats)__builtin_shuffle((Ints)a, (Ints)b, places);
#endif
}

// Of two vectors that follow each other: every number whose place has no bit `STEP`, or those that have it; the second vector's are
// put where the first one's left.
template <int STEP>
inline Floats without(Floats a, Floats b) {
    constexpr Ints places = LANES + (LANES & STEP) / STEP * (STRIP - STEP);
    return mixed(a, b, places);
}
template <int STEP>
inline Floats with(Floats a, Floats b) {
    constexpr Ints places = LANES + STEP + (LANES & STEP) / STEP * (STRIP - STEP);
    return mixed(a, b, places);
}

// As many vectors as each has numbers become those of their first numbers, their second ones and so on: numbers and vectors `STEP`
// apart change places.
template <int STEP>
inline void exchange(Floats* x) {
#pragma GCC unroll 16
    for (int i = 0; i < STRIP; i++)
        if (!(i & STEP)) {
            const Floats a = x[i], b = x[i | STEP];
            x[i] = without<STEP>(a, b);
            x[i | STEP] = with<STEP>(a, b);
        }
}

inline void transpose(Floats* x) {
    exchange<1>(x), exchange<2>(x);
    if constexpr (STRIP > 4) exchange<4>(x);
    if constexpr (STRIP > 8) exchange<8>(x);
}

// exp of numbers up to 0, to two units of the last place: 2^n p(r) with n whole and |r| <= log(2)/2.
__attribute__((always_inline)) inline Floats exp_of(Floats x) {
    x = largest(all(-87.0f), x);
#ifdef __AVX512F__
    const Floats n = (Floats)_mm512_roundscale_ps((__m512)(x * 1.44269504f), 8);
#else
    const float magic = 12582912.0f;
    const Floats n = (x * 1.44269504f + magic) - magic;
#endif
    const Floats r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    Floats p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
#ifdef __AVX512F__
    return (Floats)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return (Floats)((Ints)p + (__builtin_convertvector(n, Ints) << 23));
#endif
}

// 2^x of numbers up to 0, to 3e-7 of it: for sums of many.
inline Floats power_of_two(Floats x) {
#ifdef __AVX512F__
    const Floats n = (Floats)_mm512_roundscale_ps((__m512)x, 8), r = (Floats)_mm512_reduce_ps((__m512)x, 8);  // r of -inf is 0
#else
    x = largest(all(-125.0f), x);
    const Floats moved = x + 12582912.0f, r = x - (moved - 12582912.0f);
#endif
    Floats p = r * 1.3276471e-3f + 9.6755419e-3f;
    p = p * r + 5.5507131e-2f;
    p = p * r + 2.4022120e-1f;
    p = p * r + 6.9314694e-1f;
    p = p * r + 1.0000001f;
#ifdef __AVX512F__
    return (Floats)_mm512_scalef_ps((__m512)p, (__m512)n);
#else
    return (Floats)((Ints)p + ((Ints)moved << 23));
#endif
}

inline Floats sigmoid(Floats x) {
    const Floats e = exp_of(-size_of(x)), y = 1.0f / (1.0f + e);
    return x < 0 ? e * y : y;
}

// x P(x^2) / Q(x^2), fitted to tanh by its relative error: 2e-8 as numbers without end, a few units of the last place as computed.
// Beyond 9.02 tanh is one in float32.
inline Floats tanh_of(Floats x) {
    const Floats s = smallest(all(9.02f * 9.02f), x * x);
    Floats p = s * 1.3319061e-8f + 2.0583473e-5f, q = s * 7.7620147e-7f + 3.2830920e-4f;
    p = p * s + 3.4940340e-3f, q = q * s + 2.5871071e-2f;
    p = p * s + 1.3379717e-1f, q = q * s + 4.6713033e-1f;
    p = p * s + 1.0f, q = q * s + 1.0f;
    return smallest(all(1.0f), largest(all(-1.0f), x * p / q));
}

}  // namespace
