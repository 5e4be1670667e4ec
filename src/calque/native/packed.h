// Weights as products read them.
//
// A strip is as many columns of a product (rows of its weights) as a vector has numbers; weights are packed strip by strip, so that
// each is read once, in order.

#pragma once

#include "vectors.h"

namespace {

constexpr int TILE_BYTES = 64;               // of a row of a tile
constexpr int LINE = STRIP * 4;              // bytes of weights that lie together: 32 bits of each column of a strip
constexpr int TILE = TILE_BYTES / 4 * LINE;  // bytes of weights

// float32 numbers are multiplied by tiles as sums of three in bfloat16, x = x1 + x2 + x3 exactly, 8 bits each. Of the nine
// products, six are made; the other three are below the last bit.
#ifdef __AMX_BF16__
constexpr bool SPLIT = true;
#else
constexpr bool SPLIT = false;
#endif

// How many tiles the weights of a strip take.
inline int64_t tiles_of(int64_t width, int64_t item) {
    return SPLIT && item == 4 ? (width + 31) / 32 * 3 : (width * item + TILE_BYTES - 1) / TILE_BYTES;
}

inline Ints rounded_to_half(Floats x) { return ((Ints)x + 0x8000) & int32_t(0xffff0000); }

// Weights: for each strip its tiles; in int8 then the scales and, if the input is moved up, 128 times the sums of its rows.
struct Weights {
    const char* data;
    const float* scale;
    const int32_t* sum;
    const float* bias;
    int64_t out, width;
    template <class Item>
    int64_t next() const {
        return tiles_of(width, sizeof(Item)) * TILE;
    }
};

// 64 bytes of each of the rows of a strip as a tile of weights.
inline void pack_tile(const char* const* rows, char* to) {
    for (int at = 0; at < TILE_BYTES; at += STRIP * 4) {
        Floats words[STRIP];
        for (int i = 0; i < STRIP; i++) words[i] = load((const float*)(rows[i] + at));
        transpose(words);
        for (int i = 0; i < STRIP; i++) store((float*)(to + (at / 4 + i) * LINE), words[i]);
    }
}

// Up to a strip of rows of weights, of `width` numbers each.
template <class Item>
void pack_strip(const Item* const* rows, int count, int64_t width, char* to) {
    constexpr bool split = SPLIT && sizeof(Item) == 4;
    constexpr int parts = split ? 3 : 1, per = TILE_BYTES / (split ? 2 : sizeof(Item));
    alignas(64) char lines[parts][STRIP][TILE_BYTES] = {};
    const char* from[STRIP];
    for (int64_t k = 0; k < width; k += per) {
        const int some = int(std::min<int64_t>(per, width - k));
        const bool copied = split || some < per;
        for (int i = 0; i < STRIP; i++) {
            from[i] = copied || i >= count ? lines[0][i] : (const char*)(rows[i] + k);
            if (!copied || i >= count) continue;
            if constexpr (!split) {
                std::memset(lines[0][i], 0, TILE_BYTES);
                std::memcpy(lines[0][i], rows[i] + k, size_t(some) * sizeof(Item));
            } else
                for (int at = 0; at < per; at += STRIP) {
                    Floats left = at < some ? load_some(rows[i] + k + at, some - at) : Floats{};
                    for (int part = 0; part < parts; part++) {
                        const Floats top = (Floats)rounded_to_half(left);
                        store((Half*)lines[part][i] + at, top);
                        left -= top;
                    }
                }
        }
        for (int part = 0; part < parts; part++, to += TILE) {
            pack_tile(from, to);
            for (const char*& line : from) line += STRIP * TILE_BYTES;
        }
    }
}

template <class Item>
void pack(const Item* weight, int64_t out, int64_t width, char* packed) {
    const int64_t next = tiles_of(width, sizeof(Item)) * TILE;
    for (int64_t o = 0; o < out; o += STRIP, packed += next) {
        const Item* rows[STRIP];
        const int count = int(std::min<int64_t>(STRIP, out - o));
        for (int i = 0; i < count; i++) rows[i] = weight + (o + i) * width;
        pack_strip(rows, count, width, packed);
    }
}

}  // namespace
