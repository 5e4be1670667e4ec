// What vectors need of AVX2, with or without its later instructions for bytes.

#pragma once

#include <immintrin.h>

#include "numbers.h"

namespace {

constexpr Ints LANES = {0, 1, 2, 3, 4, 5, 6, 7};

inline Floats load(const Half* p) {
    return (Floats)_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)), 16);
}

inline void store(Half* p, Floats x) {
    const __m256i words = (__m256i)(rounded(x) >> 16);
    _mm_storeu_si128((__m128i*)p, _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

inline void store_pair(Half* p, Floats x, Floats y) {
    const __m256i both = _mm256_packus_epi32((__m256i)(rounded(x) >> 16), (__m256i)(rounded(y) >> 16));
    _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(both, 0xd8));
}

// The numbers as bfloat16 holds them.
inline Floats as_half(Floats x) { return (Floats)(rounded(x) & 0xffff0000); }

// The first n numbers of a vector, of fewer than it has.
inline Floats load_first(const float* p, int n, float rest) {
    const Ints there = LANES < n;
    return there ? (Floats)_mm256_maskload_ps(p, (__m256i)there) : all(rest);
}

inline Floats load_first(const Half* p, int n, float rest) {
    Half x[STRIP] = {};
    for (int i = 0; i < n; i++) x[i] = p[i];
    return LANES < n ? load(x) : all(rest);
}

inline void store_first(float* p, Floats x, int n) { _mm256_maskstore_ps(p, (__m256i)(LANES < n), (__m256)x); }

inline void store_first(Half* p, Floats x, int n) {
    Half all_of[STRIP];
    store(all_of, x);
    for (int i = 0; i < n; i++) p[i] = all_of[i];
}

// 64 whole numbers from -128 to 127, those of `x` to the nearest, halves to even; their bits turned where `turned` has some.
inline void store_bytes(int8_t* p, const Floats* x, int8_t turned) {
    for (int half = 0; half < 2; half++) {
        __m256i part[4];
        for (int i = 0; i < 4; i++) part[i] = _mm256_cvtps_epi32((__m256)x[half * 4 + i]);
        const __m256i all = _mm256_packs_epi16(_mm256_packs_epi32(part[0], part[1]), _mm256_packs_epi32(part[2], part[3]));
        const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
        _mm256_storeu_si256((__m256i*)p + half, _mm256_xor_si256(_mm256_permutevar8x32_epi32(all, order), _mm256_set1_epi8(turned)));
    }
}

inline Floats root_of(Floats x) { return (Floats)_mm256_sqrt_ps((__m256)x); }

inline float sum_of(Floats x) {
    __m128 s = _mm_add_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    s = _mm_add_ps(s, _mm_movehl_ps(s, s));
    return _mm_cvtss_f32(_mm_add_ss(s, _mm_movehdup_ps(s)));
}

inline float max_of(Floats x) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128((__m256)x), _mm256_extractf128_ps((__m256)x, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_movehdup_ps(m)));
}

// Which numbers are above a bound, the first in the lowest bit.
inline uint32_t above(Floats x, float bound) {
    return uint32_t(_mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(bound), _CMP_GT_OQ)));
}

// ---------------------------------------------------------------------------------------------------------------------
// Products of rows, see products.h.

constexpr bool MOVED = true;
constexpr int64_t NEAR = 1 << 18;
// Other numbers than float32 need registers beside those of sums.
template <class Item>
constexpr int TALL = sizeof(Item) == 4 ? 6 : 4;
template <class Item>
constexpr int BLOCK = sizeof(Item) == 4 ? 12 : 16;
template <class Item>
constexpr bool WIDENED = sizeof(Item) == 2;
template <class Item>
constexpr int AT_ONCE = TALL<Item>;
template <class Item>
constexpr int FEW = sizeof(Item) == 2 ? 5 : 7;
template <class Item>
constexpr int BYTES = sizeof(Item) == 4 ? 4 : 8;
#ifdef __AVXVNNI__
constexpr bool NARROW = true;
#else
constexpr bool NARROW = false;
#endif
// Memory gives the weights of very few rows faster from several places at a time, on processors that do not multiply bytes so.
template <class Item>
constexpr int side(int64_t rows) {
    if (NARROW || rows > (sizeof(Item) == 4 ? 5 : 3)) return 2;
    return rows == 1 && sizeof(Item) == 4 ? 8 : 4;
}

inline __m256i spread(const char* terms) { return _mm256_set1_epi32(*(const int32_t*)terms); }

struct Sums {
    __m256i v = _mm256_setzero_si256();
    void store(void* to) const { _mm256_storeu_si256((__m256i*)to, v); }
    void add(const char* terms, const int8_t* w) {
        const __m256i first = _mm256_loadu_si256((const __m256i*)w), second = _mm256_loadu_si256((const __m256i*)w + 1);
#ifdef __AVXVNNI__
        v = _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(v, spread(terms), first), spread(terms + 4), second);
#else
        // Products of four terms are added up in 16 bits: the weights of any four are small enough (packed.py).
        const __m256i one = _mm256_maddubs_epi16(spread(terms), first), two = _mm256_maddubs_epi16(spread(terms + 4), second);
        v = _mm256_add_epi32(v, _mm256_madd_epi16(_mm256_add_epi16(one, two), _mm256_set1_epi16(1)));
#endif
    }
    void add(const char* terms, const float* w) {
        v = (__m256i)_mm256_fmadd_ps((__m256)spread(terms), _mm256_loadu_ps(w), (__m256)v);
    }
    void add(const char* terms, const Half* w) {
        const __m256i both = _mm256_loadu_si256((const __m256i*)w), high = _mm256_set1_epi32(int32_t(0xffff0000));
        const __m256 sum = _mm256_fmadd_ps((__m256)spread(terms), (__m256)_mm256_slli_epi32(both, 16), (__m256)v);
        v = (__m256i)_mm256_fmadd_ps((__m256)spread(terms + 4), (__m256)_mm256_and_si256(both, high), sum);
    }
};

}  // namespace
