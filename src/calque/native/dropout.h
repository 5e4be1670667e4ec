#pragma once

#include "vectors.h"

namespace {

// Dropout. Number i of a tensor is kept where 16 bits of a hash of (seed, i / 2) reach a bound, so that nothing has to be stored.

inline Words hashed(Words x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    return x ^ (x >> 16);
}

struct Dropout {
    uint32_t low, high;
    int32_t bound;  // of 2^16
    float scale;

    Dropout(uint64_t seed, int64_t dropped)
        : low(uint32_t(seed)), high(uint32_t(seed >> 32)), bound(int32_t(dropped)), scale(65536.0f / float(65536 - dropped)) {}

    // `scale` where kept and 0 elsewhere, for numbers i to i + 31; i is a multiple of 32.
    inline void factors(int64_t i, Floats* factor) const {
        const uint64_t at = uint64_t(i) / 2;
        const Floats kept = all(scale), none{};
        for (int part = 0; part < 16 / STRIP; part++) {
            const Words places = (Words)LANES + uint32_t(at) + part * STRIP;
            const Words bits = hashed(hashed(places ^ low) ^ (high + uint32_t(at >> 32) * 0x9e3779b9u));
            factor[part] = (Ints)(bits & 0xffff) < bound ? none : kept;
            factor[16 / STRIP + part] = (Ints)(bits >> 16) < bound ? none : kept;
        }
    }
};

}  // namespace
