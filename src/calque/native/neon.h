// What vectors need of AArch64's own (NEON), with or without the later instructions for bytes and for bfloat16.

#pragma once

#include <arm_neon.h>

#include "numbers.h"

namespace {

constexpr Ints LANES = {0, 1, 2, 3};

inline Floats load(const Half* p) { return (Floats)vshll_n_u16(vld1_u16(&p->bits), 16); }

inline void store(Half* p, Floats x) {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    vst1_bf16((bfloat16_t*)p, vcvt_bf16_f32((float32x4_t)x));
#else
    vst1_u16(&p->bits, vshrn_n_u32((uint32x4_t)rounded(x), 16));
#endif
}

inline void store_pair(Half* p, Floats x, Floats y) { store(p, x), store(p + STRIP, y); }

// The numbers as bfloat16 holds them.
inline Floats as_half(Floats x) {
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
    return (Floats)vcvt_f32_bf16(vcvt_bf16_f32((float32x4_t)x));
#else
    return (Floats)(rounded(x) & 0xffff0000);
#endif
}

// The first n numbers of a vector, of fewer than it has.
template <class T>
inline Floats load_first(const T* p, int n, float rest) {
    T x[STRIP] = {};
    for (int i = 0; i < n; i++) x[i] = p[i];
    return LANES < n ? load(x) : all(rest);
}

template <class T>
inline void store_first(T* p, Floats x, int n) {
    T all_of[STRIP];
    store(all_of, x);
    for (int i = 0; i < n; i++) p[i] = all_of[i];
}

// 64 whole numbers from -128 to 127, those of `x` to the nearest, halves to even; their bits turned where `turned` has some.
inline void store_bytes(int8_t* p, const Floats* x, int8_t turned) {
    for (int part = 0; part < 16; part += 4) {
        int16x4_t words[4];
        for (int i = 0; i < 4; i++) words[i] = vqmovn_s32(vcvtnq_s32_f32((float32x4_t)x[part + i]));
        const int8x8_t low = vqmovn_s16(vcombine_s16(words[0], words[1])), high = vqmovn_s16(vcombine_s16(words[2], words[3]));
        vst1q_s8(p + part * 4, veorq_s8(vcombine_s8(low, high), vdupq_n_s8(turned)));
    }
}

inline Floats root_of(Floats x) { return (Floats)vsqrtq_f32((float32x4_t)x); }
inline float sum_of(Floats x) { return vaddvq_f32((float32x4_t)x); }
inline float max_of(Floats x) { return vmaxvq_f32((float32x4_t)x); }

// Which numbers are above a bound, the first in the lowest bit.
inline uint32_t above(Floats x, float bound) {
    const Words bits = {1, 2, 4, 8};
    return vaddvq_u32((uint32x4_t)((Words)(x > bound) & bits));
}

// ---------------------------------------------------------------------------------------------------------------------
// Products of rows, see products.h.

// Whether one instruction multiplies and adds up several bytes, or two numbers of bfloat16.
#ifdef __ARM_FEATURE_DOTPROD
constexpr bool OF_BYTES = true;
#else
constexpr bool OF_BYTES = false;
#endif
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
constexpr bool OF_HALVES = true;
#else
constexpr bool OF_HALVES = false;
#endif
constexpr bool MOVED = false;
constexpr int64_t NEAR = 1 << 18;
template <class Item>
constexpr int TALL = sizeof(Item) == 4 || (sizeof(Item) == 1 ? OF_BYTES : OF_HALVES) ? 8 : 4;
template <class Item>
constexpr int BLOCK = 16;
template <class Item>
constexpr bool WIDENED = sizeof(Item) == 2 && !OF_HALVES;
template <class Item>
constexpr int AT_ONCE = TALL<Item>;
template <class Item>
constexpr int FEW = AT_ONCE<Item>;
// Sixteen bytes of a row come as one vector, each number of 32 bits of which is a factor by itself.
template <class Item>
constexpr int BYTES = 16;
constexpr bool NARROW = true;
// Sums of one or two rows with two strips would wait for each other.
template <class Item>
constexpr int side(int64_t rows) { return rows > 2 ? 2 : 4; }

struct Sums {
    int32x4_t v = vdupq_n_s32(0);
    void store(void* to) const { vst1q_s32((int32_t*)to, v); }
    void add(const char* terms, const int8_t* w) {
        const int8x16_t a = vld1q_s8((const int8_t*)terms);
        const int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);
#ifdef __ARM_FEATURE_DOTPROD
        v = vdotq_laneq_s32(v, w0, a, 0);
        v = vdotq_laneq_s32(v, w1, a, 1);
        v = vdotq_laneq_s32(v, w2, a, 2);
        v = vdotq_laneq_s32(v, w3, a, 3);
#else
        const int32x4_t four = vreinterpretq_s32_s8(a);
        add(w0, vdupq_laneq_s32(four, 0), w1, vdupq_laneq_s32(four, 1));
        add(w2, vdupq_laneq_s32(four, 2), w3, vdupq_laneq_s32(four, 3));
#endif
    }
    // Sums of two products fit into 16 bits: no number is below -127.
    void add(int8x16_t w, int32x4_t a, int8x16_t w2, int32x4_t a2) {
        const int8x16_t b = vreinterpretq_s8_s32(a), b2 = vreinterpretq_s8_s32(a2);
        const int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(w), vget_low_s8(b)), vget_low_s8(w2), vget_low_s8(b2));
        const int16x8_t high = vmlal_high_s8(vmull_high_s8(w, b), w2, b2);
        v = vaddq_s32(v, vpaddq_s32(vpaddlq_s16(low), vpaddlq_s16(high)));
    }
    void add(const char* terms, const float* w) {
        const float32x4_t a = vld1q_f32((const float*)terms);
        float32x4_t sum = vreinterpretq_f32_s32(v);
        sum = vfmaq_laneq_f32(sum, vld1q_f32(w), a, 0);
        sum = vfmaq_laneq_f32(sum, vld1q_f32(w + 4), a, 1);
        sum = vfmaq_laneq_f32(sum, vld1q_f32(w + 8), a, 2);
        v = vreinterpretq_s32_f32(vfmaq_laneq_f32(sum, vld1q_f32(w + 12), a, 3));
    }
    void add(const char* terms, const Half* w) {
        float32x4_t sum = vreinterpretq_f32_s32(v);
#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC
        const bfloat16x8_t a = vld1q_bf16((const bfloat16_t*)terms);
        const bfloat16_t* from = (const bfloat16_t*)w;
        sum = vbfdotq_laneq_f32(sum, vld1q_bf16(from), a, 0);
        sum = vbfdotq_laneq_f32(sum, vld1q_bf16(from + 8), a, 1);
        sum = vbfdotq_laneq_f32(sum, vld1q_bf16(from + 16), a, 2);
        v = vreinterpretq_s32_f32(vbfdotq_laneq_f32(sum, vld1q_bf16(from + 24), a, 3));
#else
        const float32x4_t a = vld1q_f32((const float*)terms);
        const Words one = (Words)vld1q_u16(&w->bits), two = (Words)vld1q_u16(&w[8].bits);
        sum = vfmaq_laneq_f32(sum, (float32x4_t)(one << 16), a, 0);
        sum = vfmaq_laneq_f32(sum, (float32x4_t)(one & 0xffff0000), a, 1);
        sum = vfmaq_laneq_f32(sum, (float32x4_t)(two << 16), a, 2);
        v = vreinterpretq_s32_f32(vfmaq_laneq_f32(sum, (float32x4_t)(two & 0xffff0000), a, 3));
#endif
    }
};

}  // namespace
