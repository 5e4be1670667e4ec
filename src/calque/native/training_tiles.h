// Products of training by tiles: how operands are laid out, and how sums of 32 rows and 32 columns are made and handed on.
//
// Every operand is read as tiles of 16 rows of 64 bytes. Of the right one, and of a left one that is transposed, tiles are laid out
// anew for each product; sums are float32 and are rounded once. The sums of a number are taken in one order, whatever the threads.

#pragma once

#include <vector>

#include "tiles.h"
#include "vectors.h"

#if defined(__AVX512F__)

namespace {

constexpr int64_t LINE = 64, TILE = 16 * LINE;  // bytes of a line and a tile
template <class T>
constexpr int64_t DEEP = LINE / int64_t(sizeof(T));  // terms of a tile
constexpr int64_t SQUARE = 32;                       // rows and columns of the sums that are taken at a time
constexpr int64_t NEAR_TILES = 64;                   // terms of a product at a time, so that both operands stay in a cache
constexpr int64_t NEAR_ROWS = 64;                    // rows of the left operand that stay in the nearest cache

// Memory that is used again by the next product; fresh memory costs more than the product.
struct Space {
    std::vector<char> bytes;
    char* of(size_t size) {
        if (bytes.size() < size + LINE) bytes.resize(size + LINE);
        return (char*)((uintptr_t(bytes.data()) + LINE - 1) & ~uintptr_t(LINE - 1));
    }
};
thread_local Space left_space, right_space, sum_space, tail_space;

inline int64_t up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// 16 rows of 16 numbers of 32 bits become columns.
inline void transpose(__m512i* r) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

// Up to 16 rows of 32 numbers as two times 16 lines.
inline void lines_of(const float* x, int64_t next, int64_t rows, __m512i* lines) {
    for (int64_t k = 0; k < 16; k++) {
        lines[k] = k < rows ? _mm512_loadu_si512(x + k * next) : _mm512_setzero_si512();
        lines[16 + k] = k < rows ? _mm512_loadu_si512(x + k * next + 16) : _mm512_setzero_si512();
    }
}

// Up to 32 rows of 32 numbers as two times 16 lines: line k has numbers of rows 2k and 2k + 1 in turn.
inline void lines_of(const Half* x, int64_t next, int64_t rows, __m512i* lines) {
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5,
                                         36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    for (int64_t k = 0; k < 16; k++) {
        const __m512i a = 2 * k < rows ? _mm512_loadu_si512(x + 2 * k * next) : _mm512_setzero_si512();
        const __m512i b = 2 * k + 1 < rows ? _mm512_loadu_si512(x + (2 * k + 1) * next) : _mm512_setzero_si512();
        lines[k] = _mm512_permutex2var_epi16(a, low, b);
        lines[16 + k] = _mm512_permutex2var_epi16(a, high, b);
    }
}

inline void put_tile(char* to, const __m512i* lines) {
    for (int k = 0; k < 16; k++) _mm512_store_si512(to + k * LINE, lines[k]);
}

// x [rows][columns] as the right operand, its rows the terms: tiles [columns / 16][rows / DEEP].
template <class T>
void right_by_rows(const T* x, int64_t rows, int64_t columns, int64_t next, char* to, int threads) {
    const int64_t deep = up(rows, DEEP<T>) / DEEP<T>;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < deep; t++)
        for (int64_t strip = 0; strip < columns / 16; strip += 2) {
            __m512i lines[32];
            lines_of(x + t * DEEP<T> * next + strip * 16, next, rows - t * DEEP<T>, lines);
            put_tile(to + (strip * deep + t) * TILE, lines);
            put_tile(to + ((strip + 1) * deep + t) * TILE, lines + 16);
        }
}

// x [rows][columns] as the right operand, its columns the terms: tiles [rows / 16][columns / DEEP].
template <class T>
void right_by_columns(const T* x, int64_t rows, int64_t columns, char* to, int threads) {
    const int64_t deep = columns / DEEP<T>;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t strip = 0; strip < rows / 16; strip++)
        for (int64_t t = 0; t < deep; t++) {
            __m512i lines[16];
            for (int i = 0; i < 16; i++) lines[i] = _mm512_loadu_si512(x + (strip * 16 + i) * columns + t * DEEP<T>);
            transpose(lines);
            put_tile(to + (strip * deep + t) * TILE, lines);
        }
}

// The transpose of x [rows][columns] as the left operand, its rows the terms: tiles [columns / 16][rows / DEEP].
template <class T>
void left_by_rows(const T* x, int64_t rows, int64_t columns, int64_t next, char* to, int threads) {
    const int64_t deep = up(rows, DEEP<T>) / DEEP<T>;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < deep; t++)
        for (int64_t block = 0; block < columns / 16; block += 2) {
            __m512i lines[32];
            lines_of(x + t * DEEP<T> * next + block * 16, next, rows - t * DEEP<T>, lines);
            transpose(lines);
            transpose(lines + 16);
            put_tile(to + (block * deep + t) * TILE, lines);
            put_tile(to + ((block + 1) * deep + t) * TILE, lines + 16);
        }
}

// The left operand: where its tiles are.
struct Left {
    const char* data;
    int64_t line, tile, block;  // bytes from a row to the next, from a tile of a row to the next, from 16 rows to the next
};

template <class T>
inline Left rows_of(const T* x, int64_t next) {
    return {(const char*)x, next * int64_t(sizeof(T)), LINE, next * int64_t(sizeof(T)) * 16};
}
inline Left tiles_of(const char* tiles, int64_t deep) { return {tiles, LINE, TILE, deep * TILE}; }

// sums + the products of a line of the right operand with a number of the left one, or with two of bfloat16.
template <class T>
inline __m512 plus_product(__m512 sums, __m512i left, __m512i right) {
#if defined(__AVX512BF16__)
    if (sizeof(T) == 2) return _mm512_dpbf16_ps(sums, (__m512bh)left, (__m512bh)right);
#endif
    return _mm512_fmadd_ps((__m512)left, (__m512)right, sums);
}

// sums [2 strips][32 rows][16]: of 32 rows and two strips, added to what is there or not.
template <class T>
inline void square(const Left& a, const char* left, const char* w, const char* w2, int64_t deep, bool more, float* sums) {
    constexpr int R = 8;
    for (int row = 0; row < 32; row += R) {
        const char* from = left + row / 16 * a.block + row % 16 * a.line;
        __m512 s[R][2];
        for (int r = 0; r < R; r++)
            for (int k = 0; k < 2; k++) s[r][k] = more ? _mm512_loadu_ps(sums + (k * 32 + row + r) * 16) : _mm512_setzero_ps();
        for (int64_t t = 0; t < deep; t++)
            for (int k = 0; k < 16; k++) {
                const __m512i one = _mm512_loadu_si512(w + t * TILE + k * LINE);
                const __m512i two = _mm512_loadu_si512(w2 + t * TILE + k * LINE);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    const __m512i x = _mm512_set1_epi32(*(const int32_t*)(from + t * a.tile + r * a.line + k * 4));
                    s[r][0] = plus_product<T>(s[r][0], x, one);
                    s[r][1] = plus_product<T>(s[r][1], x, two);
                }
            }
        for (int r = 0; r < R; r++)
            for (int k = 0; k < 2; k++) _mm512_storeu_ps(sums + (k * 32 + row + r) * 16, s[r][k]);
    }
}

#if defined(__AMX_BF16__)
template <>
inline void square<Half>(const Left& a, const char* left, const char* w, const char* w2, int64_t deep, bool more, float* sums) {
    const char* left2 = left + a.block;
    if (more) {
        _tile_loadd(0, sums, LINE);
        _tile_loadd(1, sums + 32 * 16, LINE);
        _tile_loadd(2, sums + 16 * 16, LINE);
        _tile_loadd(3, sums + 48 * 16, LINE);
    } else {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t t = 0; t < deep; t++) {
        _tile_loadd(6, w + t * TILE, LINE);
        _tile_loadd(4, left + t * a.tile, a.line);
        _tile_loadd(7, w2 + t * TILE, LINE);
        _tile_loadd(5, left2 + t * a.tile, a.line);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, sums, LINE);
    _tile_stored(1, sums + 32 * 16, LINE);
    _tile_stored(2, sums + 16 * 16, LINE);
    _tile_stored(3, sums + 48 * 16, LINE);
}
#endif

// Gives `sink(first row, first column, columns, sums)` squares of left * right; `rows` is a multiple of 32, `strips` of 16 columns.
// With `upper` those on the diagonal and above it.
template <class T, class Sink>
void multiply(const Left& a, int64_t rows, const char* right, int64_t strips, int64_t deep, int threads, const Sink& sink,
              bool upper = false) {
    const int64_t pairs = (strips + 1) / 2, chunk = NEAR_TILES, blocks = rows / SQUARE;
    const bool once = deep <= chunk + chunk / 2;
    float* kept = once ? nullptr : (float*)sum_space.of(size_t(blocks * pairs) * SQUARE * SQUARE * 4);
    // Threads share the columns where there are more of them.
    const bool wide = pairs > blocks;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        Tiles tiles;
        (void)tiles;
        alignas(64) float near[SQUARE * SQUARE];
        const int64_t first = wide ? 0 : blocks * part / threads, last = wide ? blocks : blocks * (part + 1) / threads;
        const int64_t first_pair = wide ? pairs * part / threads : 0, last_pair = wide ? pairs * (part + 1) / threads : pairs;
        for (int64_t from = 0; from < deep; from += once ? deep : chunk) {
            const int64_t some = once ? deep : std::min(chunk, deep - from);
            for (int64_t begin = first; begin < last; begin += NEAR_ROWS / SQUARE)
                for (int64_t pair = first_pair; pair < last_pair; pair++) {
                    const int64_t count = std::min<int64_t>(2, strips - pair * 2);
                    const char* w = right + (pair * 2 * deep + from) * TILE;
                    const char* w2 = w + (count > 1 ? deep * TILE : 0);
                    for (int64_t block = begin; block < std::min(last, begin + NEAR_ROWS / SQUARE); block++) {
                        if (upper && pair < block) break;
                        float* sums = once ? near : kept + (block * pairs + pair) * SQUARE * SQUARE;
                        square<T>(a, a.data + block * 2 * a.block + from * a.tile, w, w2, some, from > 0, sums);
                        if (from + some == deep) sink(block * SQUARE, pair * SQUARE, count * 16, sums);
                    }
                }
        }
        _mm_sfence();
    }
}

// Writes 32 numbers, with `far` past the cache.
inline void put_line(float* to, Floats a, Floats b, bool far) {
    far ? _mm512_stream_ps(to, (__m512)a) : _mm512_storeu_ps(to, (__m512)a);
    far ? _mm512_stream_ps(to + 16, (__m512)b) : _mm512_storeu_ps(to + 16, (__m512)b);
}
#if defined(__AVX512BF16__)
inline void put_line(Half* to, Floats a, Floats b, bool far) {
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh((__m512)b, (__m512)a);
    far ? _mm512_stream_si512((__m512i*)to, both) : _mm512_storeu_si512(to, both);
}
#endif

}  // namespace

#endif
