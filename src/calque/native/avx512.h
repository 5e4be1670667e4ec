// What vectors need of AVX-512, with or without instructions for bytes, bfloat16 and tiles.

#pragma once

#include <immintrin.h>

#include "numbers.h"

namespace {

constexpr Ints LANES = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline Floats load(const Half* p) {
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p)), 16);
}

inline void store(Half* p, Floats x) {
#ifdef __AVX512BF16__
    _mm256_storeu_si256((__m256i*)p, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
    _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16((__m512i)(rounded(x) >> 16)));
#endif
}

inline void store_pair(Half* p, Floats x, Floats y) {
#ifdef __AVX512BF16__
    const __m512bh both = _mm512_cvtne2ps_pbh((__m512)y, (__m512)x);
    std::memcpy(p, &both, sizeof both);
#else
    store(p, x), store(p + STRIP, y);
#endif
}

// The numbers as bfloat16 holds them.
inline Floats as_half(Floats x) {
#ifdef __AVX512BF16__
    return (Floats)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh((__m512)x)), 16);
#else
    return (Floats)(rounded(x) & 0xffff0000);
#endif
}

// The first n numbers of a vector, of fewer than it has.
inline __mmask16 first(int n) { return n <= 0 ? 0 : (1 << n) - 1; }

inline Floats load_first(const float* p, int n, float rest) {
    return (Floats)_mm512_mask_loadu_ps(_mm512_set1_ps(rest), first(n), p);
}

inline Floats load_first(const Half* p, int n, float rest) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first(n), p));
    return (Floats)_mm512_mask_slli_epi32((__m512i)all(rest), first(n), wide, 16);
}

inline void store_first(float* p, Floats x, int n) { _mm512_mask_storeu_ps(p, first(n), (__m512)x); }

inline void store_first(Half* p, Floats x, int n) {
    Half all_of[STRIP];
    store(all_of, x);
    _mm256_mask_storeu_epi16(p, first(n), _mm256_loadu_si256((const __m256i*)all_of));
}

// 64 whole numbers from -128 to 127, those of `x` to the nearest, halves to even; their bits turned where `turned` has some.
inline void store_bytes(int8_t* p, const Floats* x, int8_t turned) {
    __m512i part[4];
    for (int i = 0; i < 4; i++) part[i] = _mm512_cvtps_epi32((__m512)x[i]);
    // Vectors are packed quarter by quarter.
    const __m512i all = _mm512_packs_epi16(_mm512_packs_epi32(part[0], part[1]), _mm512_packs_epi32(part[2], part[3]));
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    _mm512_storeu_si512(p, _mm512_xor_si512(_mm512_permutexvar_epi32(order, all), _mm512_set1_epi8(turned)));
}

inline Floats root_of(Floats x) { return (Floats)_mm512_sqrt_ps((__m512)x); }
inline float sum_of(Floats x) { return _mm512_reduce_add_ps((__m512)x); }
inline float max_of(Floats x) { return _mm512_reduce_max_ps((__m512)x); }

// Which numbers are above a bound, the first in the lowest bit.
inline uint32_t above(Floats x, float bound) { return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(bound), _CMP_GT_OQ); }

// ---------------------------------------------------------------------------------------------------------------------
// Products of rows, see products.h.

#ifdef __AMX_INT8__
constexpr bool MOVED = false;
#else
constexpr bool MOVED = true;
#endif
constexpr int64_t NEAR = 1 << 19;
template <class Item>
constexpr int TALL = 16;
template <class Item>
constexpr int BLOCK = 16;
template <class Item>
constexpr bool WIDENED = false;
template <class Item>
constexpr int AT_ONCE = 8;
template <class Item>
constexpr int FEW = AT_ONCE<Item>;
template <class Item>
constexpr int BYTES = 4;
constexpr bool NARROW = true;
template <class Item>
constexpr int side(int64_t) { return 2; }

inline __m512i spread(const char* terms) { return _mm512_set1_epi32(*(const int32_t*)terms); }

struct Sums {
    __m512i v = _mm512_setzero_si512();
    void store(void* to) const { _mm512_storeu_si512(to, v); }
    void add(const char* terms, const int8_t* w) {
        const __m512i a = spread(terms);
#ifdef __AVX512VNNI__
        v = _mm512_dpbusd_epi32(v, a, _mm512_loadu_si512(w));
#else
        __m512i b = _mm512_loadu_si512(w), low = _mm512_set1_epi32(0x00ff00ff);
        __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8), odd = _mm512_srai_epi16(b, 8);
        v = _mm512_add_epi32(v, _mm512_madd_epi16(_mm512_and_si512(a, low), even));
        v = _mm512_add_epi32(v, _mm512_madd_epi16(_mm512_srli_epi16(a, 8), odd));
#endif
    }
    void add(const char* terms, const float* w) {
        v = (__m512i)_mm512_fmadd_ps((__m512)spread(terms), _mm512_loadu_ps(w), (__m512)v);
    }
    void add(const char* terms, const Half* w) {
        const __m512i a = spread(terms);
        __m512 sum = _mm512_castsi512_ps(v);
        __m512i b = _mm512_loadu_si512(w);
#ifdef __AVX512BF16__
        sum = _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b);
#else
        const __m512i high = _mm512_set1_epi32(int32_t(0xffff0000));
        sum = _mm512_fmadd_ps((__m512)_mm512_slli_epi32(a, 16), (__m512)_mm512_slli_epi32(b, 16), sum);
        sum = _mm512_fmadd_ps((__m512)_mm512_and_si512(a, high), (__m512)_mm512_and_si512(b, high), sum);
#endif
        v = _mm512_castps_si512(sum);
    }
};

}  // namespace
