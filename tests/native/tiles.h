// The tiles of AMX, computed with vectors of 512 bits: so that a processor without them runs the code that is written for them.
// Included before any other file of the kernels, by `-include`.

#pragma once

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

// Named here, not by the compiler's options: GCC 14 forgets them behind its own headers for other tiles.
#define __AMX_TILE__ 1
#define __AMX_INT8__ 1
#define __AMX_BF16__ 1
#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbssd
#undef _tile_dpbf16ps
#define _tile_loadconfig(shape) tiles::configured(shape)
#define _tile_release() (tiles::ready = false)
#define _tile_loadd(tile, from, next) tiles::load(tile, from, next)
#define _tile_stored(tile, to, next) tiles::store(tile, to, next)
#define _tile_zero(tile) tiles::clear(tile)
#define _tile_dpbssd(c, a, b) tiles::multiply<tiles::Bytes>(c, a, b)
#define _tile_dpbf16ps(c, a, b) tiles::multiply<tiles::Halves>(c, a, b)
#define syscall(...) 0  // the system need not allow what is not there

namespace tiles {

constexpr int ROWS = 16;
inline thread_local __m512i all[8][ROWS];
inline thread_local bool ready = false;  // a processor stops a program that uses tiles without their shapes

inline void configured(const void* shape) {
    const uint8_t* bytes = (const uint8_t*)shape;
    for (int i = 0; i < 8; i++)
        if (bytes[0] != 1 || bytes[16 + 2 * i] != 64 || bytes[48 + i] != ROWS) __builtin_trap();
    std::memset(all, 0, sizeof all);
    ready = true;
}

inline __m512i* of(int tile) {
    if (!ready) __builtin_trap();
    return all[tile];
}

inline void clear(int tile) { std::memset((void*)of(tile), 0, sizeof all[0]); }

inline void load(int tile, const void* from, int64_t next) {
    for (int row = 0; row < ROWS; row++) of(tile)[row] = _mm512_loadu_si512((const char*)from + row * next);
}

inline void store(int tile, void* to, int64_t next) {
    for (int row = 0; row < ROWS; row++) _mm512_storeu_si512((char*)to + row * next, of(tile)[row]);
}

struct Bytes {  // with sign: those of a are moved up by 128, and 128 b is taken off again
    static __m512i add(__m512i sum, __m512i a, __m512i b) {
        const __m512i middle = _mm512_set1_epi8(-128);
        return _mm512_sub_epi32(_mm512_dpbusd_epi32(sum, _mm512_xor_si512(a, middle), b),
                                _mm512_dpbusd_epi32(_mm512_setzero_si512(), middle, b));
    }
};

struct Halves {
    static __m512i add(__m512i sum, __m512i a, __m512i b) {
        return (__m512i)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
    }
};

// To each 32 bits of a row of c, the products of the numbers in 32 bits of that row of a with those in the rows of b, one after the other.
template <class Numbers>
inline void multiply(int c, int a, int b) {
    for (int row = 0; row < ROWS; row++) {
        int32_t left[16];
        std::memcpy(left, &of(a)[row], sizeof left);
        __m512i sum = of(c)[row];
        for (int k = 0; k < ROWS; k++) sum = Numbers::add(sum, _mm512_set1_epi32(left[k]), of(b)[k]);
        of(c)[row] = sum;
    }
}

}  // namespace tiles
