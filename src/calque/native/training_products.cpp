// Products of training in bfloat16: of rows with a matrix and its bias, with its transpose, and the gradient of a matrix.
//
// Every operand is read as tiles of 16 rows of 64 bytes. Of the right one, and of a left one that is transposed, tiles are laid out
// anew for each product; sums are float32 and are rounded once. The sums of a number are taken in one order, whatever the threads.
// A library's product is as fast, but its bias is another pass over the result, its gradient of a matrix a third slower, and it
// compiles something for every number of rows.

#include <vector>

#include "dropout.h"
#include "tiles.h"
#include "vectors.h"

#if defined(__AVX512BF16__)

namespace {

constexpr int64_t LINE = 64, TILE = 16 * LINE, DEEP = 32;  // bytes of a line and a tile; terms of a tile
constexpr int64_t SQUARE = 32;                             // rows and columns of the sums that are taken at a time
constexpr int64_t NEAR_TERMS = 2048;                       // of a product at a time, so that both operands stay in a cache
constexpr int64_t FAR = 1 << 19;  // bytes of a result
constexpr int64_t NEAR_ROWS = 64, PANEL = 128;  // rows of the left operand that stay in the nearest cache, in the next one

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

inline __m512i halves(Floats low, Floats high) { return (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low); }
inline __m256i halves(Floats x) { return (__m256i)_mm512_cvtneps_pbh((__m512)x); }

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

// Up to 32 rows of 32 numbers as two times 16 lines: line k has numbers of rows 2k and 2k + 1 in turn.
inline void paired(const Half* x, int64_t next, int64_t rows, __m512i* lines) {
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

// x [rows][columns] as the right operand, its rows the terms: tiles [columns / 16][rows / 32].
void right_by_rows(const Half* x, int64_t rows, int64_t columns, int64_t next, char* to, int threads) {
    const int64_t deep = up(rows, DEEP) / DEEP;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < deep; t++)
        for (int64_t strip = 0; strip < columns / 16; strip += 2) {
            __m512i lines[32];
            paired(x + t * DEEP * next + strip * 16, next, rows - t * DEEP, lines);
            put_tile(to + (strip * deep + t) * TILE, lines);
            put_tile(to + ((strip + 1) * deep + t) * TILE, lines + 16);
        }
}

// x [rows][columns] as the right operand, its columns the terms: tiles [rows / 16][columns / 32].
void right_by_columns(const Half* x, int64_t rows, int64_t columns, char* to, int threads) {
    const int64_t deep = columns / DEEP;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t strip = 0; strip < rows / 16; strip++)
        for (int64_t t = 0; t < deep; t++) {
            __m512i lines[16];
            for (int i = 0; i < 16; i++) lines[i] = _mm512_loadu_si512(x + (strip * 16 + i) * columns + t * DEEP);
            transpose(lines);
            put_tile(to + (strip * deep + t) * TILE, lines);
        }
}

// The transpose of x [rows][columns] as the left operand, its rows the terms: tiles [columns / 16][rows / 32].
void left_by_rows(const Half* x, int64_t rows, int64_t columns, int64_t next, char* to, int threads) {
    const int64_t deep = up(rows, DEEP) / DEEP;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t t = 0; t < deep; t++)
        for (int64_t block = 0; block < columns / 16; block += 2) {
            __m512i lines[32];
            paired(x + t * DEEP * next + block * 16, next, rows - t * DEEP, lines);
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

inline Left rows_of(const Half* x, int64_t next) { return {(const char*)x, next * 2, LINE, next * 32}; }
inline Left tiles_of(const char* tiles, int64_t deep) { return {tiles, LINE, TILE, deep * TILE}; }

#if defined(__AMX_BF16__)
// sums [2 strips][32 rows][16]: of 32 rows and two strips, added to what is there or not.
inline void square(const Left& a, const char* left, const char* w, const char* w2, int64_t deep, bool more, float* sums) {
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
#else
inline void square(const Left& a, const char* left, const char* w, const char* w2, int64_t deep, bool more, float* sums) {
    constexpr int R = 8;
    for (int row = 0; row < 32; row += R) {
        const char* from = left + row / 16 * a.block + row % 16 * a.line;
        __m512 s[R][2];
        for (int r = 0; r < R; r++)
            for (int k = 0; k < 2; k++) s[r][k] = more ? _mm512_loadu_ps(sums + (k * 32 + row + r) * 16) : _mm512_setzero_ps();
        for (int64_t t = 0; t < deep; t++)
            for (int k = 0; k < 16; k++) {
                const __m512bh one = (__m512bh)_mm512_loadu_si512(w + t * TILE + k * LINE);
                const __m512bh two = (__m512bh)_mm512_loadu_si512(w2 + t * TILE + k * LINE);
#pragma GCC unroll 8
                for (int r = 0; r < R; r++) {
                    const __m512bh x = (__m512bh)_mm512_set1_epi32(*(const int32_t*)(from + t * a.tile + r * a.line + k * 4));
                    s[r][0] = _mm512_dpbf16_ps(s[r][0], x, one);
                    s[r][1] = _mm512_dpbf16_ps(s[r][1], x, two);
                }
            }
        for (int r = 0; r < R; r++)
            for (int k = 0; k < 2; k++) _mm512_storeu_ps(sums + (k * 32 + row + r) * 16, s[r][k]);
    }
}
#endif

// Gives `sink(first row, first column, columns, sums)` squares of left * right; `rows` is a multiple of 32, `strips` of 16 columns.
template <class Sink>
void multiply(const Left& a, int64_t rows, const char* right, int64_t strips, int64_t deep, int threads, const Sink& sink) {
    const int64_t pairs = (strips + 1) / 2, chunk = NEAR_TERMS / DEEP, blocks = rows / SQUARE;
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
                        float* sums = once ? near : kept + (block * pairs + pair) * SQUARE * SQUARE;
                        square(a, a.data + block * 2 * a.block + from * a.tile, w, w2, some, from > 0, sums);
                        if (from + some == deep) sink(block * SQUARE, pair * SQUARE, count * 16, sums);
                    }
                }
        }
        _mm_sfence();
    }
}

// What becomes of sums: + bias, and with `dropout` max(0, .) times its factors.
struct Output {
    Half* data;
    int64_t rows, next;
    const Half* bias = nullptr;
    bool far = false;  // too large for a cache: written past it
    const Dropout* dropout = nullptr;
    int64_t first_row = 0;

    void operator()(int64_t row, int64_t column, int64_t columns, const float* sums) const {
        const bool both = columns > 16;
        const Floats low = bias ? load(bias + column) : Floats{}, high = bias && both ? load(bias + column + 16) : Floats{};
        Half* to = data + row * next + column;
        const int64_t count = std::min(SQUARE, rows - row);
        for (int64_t r = 0; r < count; r++, to += next) {
            Floats a = load(sums + r * 16) + low, b = load(sums + (32 + r) * 16) + high;
            if (dropout) {
                Floats first, second;
                dropout->factors((first_row + row + r) * next + column, first, second);
                a = (a > 0 ? a : Floats{}) * first;
                b = (b > 0 ? b : Floats{}) * second;
            }
            if (!both) _mm256_storeu_si256((__m256i*)to, halves(a));
            else if (far) _mm512_stream_si512((__m512i*)to, halves(a, b));
            else _mm512_storeu_si512(to, halves(a, b));
        }
    }
};

// y [rows][16 strips] = x [rows][32 deep] * right + bias; the last rows of x are copied where they are no 32.
void rows_times(const Half* x, int64_t rows, int64_t deep, const char* right, int64_t strips, const Half* bias, const Dropout* dropout,
                Half* y, int threads) {
    const int64_t width = deep * DEEP, out = strips * 16, whole = rows / SQUARE * SQUARE, rest = rows - whole;
    const bool far = rows * out * 2 > FAR && uintptr_t(y) % LINE == 0 && out % 32 == 0;
    multiply(rows_of(x, width), whole, right, strips, deep, threads, Output{y, whole, out, bias, far, dropout});
    if (!rest) return;
    Half* tail = (Half*)tail_space.of(size_t(SQUARE) * width * 2);
    std::memcpy(tail, x + whole * width, size_t(rest) * width * 2);
    std::memset(tail + rest * width, 0, size_t(SQUARE - rest) * width * 2);
    multiply(rows_of(tail, width), SQUARE, right, strips, deep, 1, Output{y + whole * out, rest, out, bias, false, dropout, whole});
}

}  // namespace

#endif

extern "C" {

// 1 where there are products for training.
int calque_training_products() {
#if defined(__AVX512BF16__)
    return 1;
#else
    return 0;
#endif
}

#if defined(__AVX512BF16__)

// weight [out][width] laid out for `calque_training_rows`: for x weight^T, or with `back` for g weight; widths are multiples of 32.
void calque_training_pack(const Half* weight, int64_t out, int64_t width, int back, char* packed, int threads) {
    back ? right_by_rows(weight, out, width, width, packed, threads) : right_by_columns(weight, out, width, packed, threads);
}

// y [rows][out] = x [rows][width] times a packed matrix, + bias.
void calque_training_rows(const Half* x, int64_t rows, const char* packed, const Half* bias, int64_t out, int64_t width, Half* y,
                          int threads) {
    rows_times(x, rows, width / DEEP, packed, out / 16, bias, nullptr, y, threads);
}

// The same with a matrix as it is: y = x weight^T + bias, or with `back` d_x [rows][width] = g [rows][out] weight. With `relu`
// max(0, y), of which dropout keeps some.
void calque_training_product(const Half* x, int64_t rows, const Half* weight, const Half* bias, int64_t out, int64_t width, int back,
                             int relu, uint64_t seed, int64_t dropped, Half* y, int threads) {
    char* packed = right_space.of(size_t(out) * width * 2);
    calque_training_pack(weight, out, width, back, packed, threads);
    const Dropout dropout(seed, dropped);
    rows_times(x, rows, (back ? out : width) / DEEP, packed, (back ? width : out) / 16, bias, relu ? &dropout : nullptr, y, threads);
}

// d_weight [out][width] = g^T x, and, where it is asked for, d_bias [out], the sum of the rows of g.
void calque_training_weight(const Half* g, const Half* x, int64_t rows, int64_t out, int64_t width, Half* d_weight, Half* d_bias,
                            int threads) {
    const int64_t deep = up(rows, DEEP) / DEEP;
    char* right = right_space.of(size_t(width) * deep * DEEP * 2);
    right_by_rows(x, rows, width, width, right, threads);
    char* left = left_space.of(size_t(PANEL) * deep * DEEP * 2);
    for (int64_t from = 0; from < out; from += PANEL) {
        const int64_t some = std::min(PANEL, out - from);
        left_by_rows(g + from, rows, some, out, left, threads);
        multiply(tiles_of(left, deep), some, right, width / 16, deep, threads, Output{d_weight + from * width, some, width});
    }
    if (!d_bias) return;
    float* sums = (float*)sum_space.of(size_t(out) * 4);
    std::fill(sums, sums + out, 0.0f);
    for (int64_t row = 0; row < rows; row++)
        for (int64_t column = 0; column < out; column += 16)
            store(sums + column, load(sums + column) + load(g + row * out + column));
    for (int64_t column = 0; column < out; column += 16) store(d_bias + column, load(sums + column));
}

#endif
}
