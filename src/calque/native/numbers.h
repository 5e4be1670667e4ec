// Vectors of as many numbers in float32 as the processor's registers hold.

#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace {

#if defined(__AVX512F__)
constexpr int STRIP = 16;  // numbers of a vector
#elif defined(__AVX2__)
constexpr int STRIP = 8;
#else
constexpr int STRIP = 4;
#endif
typedef float Floats __attribute__((vector_size(STRIP * 4)));
typedef int32_t Ints __attribute__((vector_size(STRIP * 4)));
typedef uint32_t Words __attribute__((vector_size(STRIP * 4)));
struct Half {  // bfloat16
    uint16_t bits;
};

constexpr float NOTHING = -std::numeric_limits<float>::infinity();

inline Floats all(float x) { return x - Floats{}; }

inline Floats load(const float* p) {
    Floats x;
    std::memcpy(&x, p, sizeof x);
    return x;
}

inline void store(float* p, Floats x) { std::memcpy(p, &x, sizeof x); }

// The nearest numbers of bfloat16, of two as near the even one, in the upper halves of words.
inline Words rounded(Floats x) {
    const Words bits = (Words)x;
    return (Words)(x == x) ? bits + 0x7fff + ((bits >> 16) & 1) : Words{} + 0x7fc00000;
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

}  // namespace
