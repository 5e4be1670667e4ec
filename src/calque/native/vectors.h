// Vectors of as many numbers in float32 as the processor's registers hold, read from and written to float32 and bfloat16.

#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace {

#ifdef __AVX512F__
constexpr int STRIP = 16;  // numbers of a vector
#else
constexpr int STRIP = 8;
#endif
typedef float Floats __attribute__((vector_size(STRIP * 4)));
typedef int32_t Ints __attribute__((vector_size(STRIP * 4)));
typedef uint32_t Words __attribute__((vector_size(STRIP * 4)));
struct Half {  // bfloat16
    uint16_t bits;
};

#ifdef __AVX512F__
constexpr Ints LANES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
#else
constexpr Ints LANES = {0, 1, 2, 3, 4, 5, 6, 7};
#endif
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
    return (Floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16);
#endif
}

inline void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }

// The nearest numbers of bfloat16, of two as near the even one, in the upper halves of words.
inline Words rounded(Floats x) {
    const Words bits = (Words)x;
    return (Words)(x == x) ? bits + 0x7fff + ((bits >> 16) & 1) : Words{} + 0x7fc00000;
}

inline void store(Half* p, Floats x) {
#ifdef __AVX512BF16__
    _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#elif defined(__AVX512F__)
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16((__m512i)(rounded(x) >> 16)));
#else
    const __m256i words = (__m256i)(rounded(x) >> 16);
    _mm_storeu_si128((__m128i*)p, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
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

// The first n numbers of a vector.
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
inline Floats load_some(const float* p, int n, float rest = 0) {
    if (n >= STRIP) return load(p);
    const Ints there = LANES < n;
    return there ? (Floats)_mm256_maskload_ps(p, (__m256i)there) : all(rest);
}

inline Floats load_some(const Half* p, int n, float rest = 0) {
    if (n >= STRIP) return load(p);
    Half x[STRIP] = {};
    for (int i = 0; i < n; i++) x[i] = p[i];
    return LANES < n ? load(x) : all(rest);
}

inline void store_some(float* p, Floats x, int n) {
    if (n >= STRIP) return store(p, x);
    _mm256_maskstore_ps(p, (__m256i)(LANES < n), (__m256)x);
}

inline void store_some(Half* p, Floats x, int n) {
    if (n >= STRIP) return store(p, x);
    Half all_of[STRIP];
    store(all_of, x);
    for (int i = 0; i < n; i++) p[i] = all_of[i];
}
#endif

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
inline void store_pair(Half* p, Floats x, Floats y) {
#ifdef __AVX512BF16__
    const __m512bh both = _mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
    std::memcpy(p, &both, sizeof both);
#elif defined(__AVX512F__)
    store(p, x), store(p + STRIP, y);
#else
    const __m256i both = _mm256_packus_epi32((__m256i)(rounded(x) >> 16), (__m256i)(rounded(y) >> 16));
    _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(both, 0xd8));
#endif
}

// The numbers as a type holds them.
template <class T>
inline Floats as(Floats x) {
    if (sizeof(T) == 4) return x;
#ifdef __AVX512BF16__
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x)), 16);
#else
    return (Floats)(rounded(x) & 0xffff0000);
#endif
}

// 64 whole numbers from -128 to 127, those of `x` to the nearest, halves to even; their bits turned where `turned` has some.
inline void store_bytes(int8_t* p, const Floats* x, int8_t turned) {
#ifdef __AVX512F__
    __m512i part[4];
    for (int i = 0; i < 4; i++) part[i] = _mm512_cvtps_epi32((__m512)x[i]);
    // Vectors are packed quarter by quarter.
    const __m512i all = _mm512_packs_epi16(_mm512_packs_epi32(part[0], part[1]), _mm512_packs_epi32(part[2], part[3]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_xor_si512(_mm512_permutexvar_epi32(order, all), _mm512_set1_epi8(turned)));
#else
    for (int half = 0; half < 2; half++) {
        __m256i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm256_cvtps_epi32((__m256)x[half * 4 + i]);
        const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256((__m256i*)p + half, _mm256_xor_si256(_mm256_permutevar8x32_epi32(all, order), _mm256_set1_epi8(turned)));
    }
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

inline Floats root_of(Floats x) {
#ifdef __AVX512F__
    return (Floats)_mm512_sqrt_ps((__m512)x);
#else
    return (Floats)_mm256_sqrt_ps((__m256)x);
#endif
}

inline float sum_of(Floats x) {
#ifdef __AVX512F__
    return _mm512_reduce_add_ps((__m512)x);
#else
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
#endif
}

inline float max_of(Floats x) {
#ifdef __AVX512F__
    return _mm512_reduce_max_ps((__m512)x);
#else
    __m128 m = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
#endif
}

// Which numbers are above a bound, the first in the lowest bit.
inline uint32_t above(Floats x, float bound) {
#ifdef __AVX512F__
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(bound), _CMP_GT_OQ);
#else
    return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(bound), _CMP_GT_OQ)));
#endif
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
    exchange<1>(x), exchange<2>(x), exchange<4>(x);
    if constexpr (STRIP > 8) exchange<STRIP / 2>(x);
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
