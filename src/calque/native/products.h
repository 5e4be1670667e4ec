// Products of rows with packed weights in int8, bfloat16 and float32.
//
// All sums of a row are taken in one order, whatever other rows there are.

#pragma once

#include <vector>

#include "packed.h"
#include "tiles.h"

namespace {

// What differs with the processor, see avx512.h, avx2.h and neon.h:
//   MOVED     products of bytes take the input as numbers from 0 to 255: moved up by 128
//   NEAR      bytes of rows beside which weights stay in a cache
//   TALL      rows that lie side by side, tile by tile: those of a tile, or those that are multiplied together
//   BLOCK     rows that have their sums side by side
//   WIDENED   nothing multiplies numbers of bfloat16: those of rows lie in float32
//   AT_ONCE   rows that are multiplied together
//   FEW       the most rows whose weights are read once: their sums with two strips fit into registers
//   BYTES     of a row, whose products are added at a time
//   NARROW    lines are asked for to the first cache
//   side      strips that very few rows are multiplied with side by side, else 2
//   Sums      the sums of a strip: a number of 32 bits of each column
template <class Item>
constexpr int ROW_BYTES = WIDENED<Item> ? 2 * TILE_BYTES : TILE_BYTES;

// ---------------------------------------------------------------------------------------------------------------------
// Rows of the input, laid out in tiles: [rows / TALL][width / tile][TALL][ROW_BYTES], zeros behind a row's end. What stands
// behind the last row has no meaning: no row depends on another.

template <class Item>
struct Rows {
    int64_t count, blocks, tiles;  // float32 in parts: of the tiles of one of three parts, which lie one after the other
    std::vector<float> step;  // int8: the scale of each row
    Item* data;
};

thread_local std::vector<char> scratch;

template <class Item>
Rows<Item> new_rows(int64_t count, int64_t width) {
    const bool split = SPLIT && sizeof(Item) == 4;
    Rows<Item> rows{count, (count + BLOCK<Item> - 1) / BLOCK<Item>, split ? tiles_of(width, 2) : tiles_of(width, sizeof(Item)), {}, nullptr};
    size_t bytes = size_t(rows.blocks) * BLOCK<Item> * rows.tiles * ROW_BYTES<Item> * (split ? 3 : 1) + 64;
    if (scratch.size() < bytes) scratch.resize(bytes);
    rows.data = (Item*)((uintptr_t(scratch.data()) + 63) & ~uintptr_t(63));
    return rows;
}

template <class Item>
inline char* line_of(const Rows<Item>& rows, int64_t row, int64_t tile) {
    return (char*)rows.data + ((row / TALL<Item> * rows.tiles + tile) * TALL<Item> + row % TALL<Item>) * ROW_BYTES<Item>;
}

template <class T>
Rows<int8_t> quantised(const T* x, int64_t next, int64_t count, int64_t width) {
    Rows<int8_t> rows = new_rows<int8_t>(count, width);
    rows.step.resize(rows.blocks * BLOCK<int8_t>);
    const int64_t whole = width / TILE_BYTES * TILE_BYTES;
    for (int64_t i = 0; i < count; i++) {
        const T* row = x + i * next;
        Floats high = sizes_of(row, whole);
        for (int64_t k = whole; k < width; k += STRIP)
            high = largest(high, size_of(load_some(row + k, int(width - k))));
        const float highest = std::max(max_of(high), 1e-30f), turned = 127.0f / highest;
        rows.step[i] = highest * (1.0f / 127.0f);
        for (int64_t tile = 0; tile < rows.tiles; tile++) {
            Floats numbers[TILE_BYTES / STRIP];
            const int64_t k = tile * TILE_BYTES;
            for (int part = 0; part < TILE_BYTES / STRIP; part++) {
                const int64_t at = k + part * STRIP;
                if (k < whole) numbers[part] = load(row + at) * turned;
                else numbers[part] = at < width ? load_some(row + at, int(width - at)) * turned : Floats{};
            }
            store_bytes((int8_t*)line_of(rows, i, tile), numbers, MOVED ? -128 : 0);
        }
    }
    return rows;
}

template <class T>
Rows<float> widened(const T* x, int64_t next, int64_t count, int64_t width) {
    Rows<float> rows = new_rows<float>(count, width);
    if (SPLIT) {
        const int64_t part = rows.blocks * rows.tiles * TILE;
        for (int64_t i = 0; i < count; i++)
            for (int64_t k = 0; k < rows.tiles * 32; k += STRIP) {
                Floats left = k < width ? load_some(x + i * next + k, int(width - k)) : Floats{};
                for (int p = 0; p < 3; p++) {
                    const Ints top = rounded_to_half(left);
                    store((Half*)(line_of(rows, i, k / 32) + p * part) + k % 32, (Floats)top);
                    left -= (Floats)top;
                }
            }
        return rows;
    }
    for (int64_t i = 0; i < count; i++)
        for (int64_t tile = 0; tile < rows.tiles; tile++)
            for (int64_t part = 0, k = tile * 16; part < 16; part += STRIP, k += STRIP)
                store((float*)line_of(rows, i, tile) + part, k < width ? load_some(x + i * next + k, int(width - k)) : Floats{});
    return rows;
}

template <class T>
Rows<Half> halved(const T* x, int64_t next, int64_t count, int64_t width) {
    constexpr bool wide = ROW_BYTES<Half> > TILE_BYTES;
    Rows<Half> rows = new_rows<Half>(count, width);
    for (int64_t i = 0; i < count; i++)
        for (int64_t tile = 0; tile < rows.tiles; tile++) {
            char* line = line_of(rows, i, tile);
            const T* from = x + i * next + tile * 32;
            if (!wide && sizeof(T) == 2 && tile * 32 + 32 <= width) {
                std::memcpy(line, from, TILE_BYTES);
                continue;
            }
            for (int part = 0; part < 32; part += STRIP) {
                const int64_t left = width - tile * 32 - part;
                const Floats some = left > 0 ? load_some(from + part, int(left)) : Floats{};
                if (wide) store((float*)line + part, sizeof(T) == 2 ? some : as<Half>(some));
                else store((Half*)line + part, some);
            }
        }
    return rows;
}

template <class Item, class T>
Rows<Item> laid_out(const T* x, int64_t next, int64_t count, int64_t width) {
    if constexpr (sizeof(Item) == 1) return quantised(x, next, count, width);
    else if constexpr (sizeof(Item) == 2) return halved(x, next, count, width);
    else return widened(x, next, count, width);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sums of one or two blocks of rows with one or two strips: sums[strip][row][STRIP], 32 rows apart.

#ifdef __AMX_INT8__
// Asks for tiles of the next two strips while these are multiplied: the first two passes over the rows share them.
inline void fetch(const char* w, const char* w2, int64_t ahead, int64_t block, int64_t blocks) {
    const int passes = blocks > 2 ? 2 : 1;
    if (block / 2 >= passes) return;
    const int64_t first = block / 2 * 8 * TILE_BYTES, bytes = TILE / passes;
    for (int64_t at = first; at < first + bytes; at += TILE_BYTES) {
        _mm_prefetch(w + ahead + at, _MM_HINT_T1);
        _mm_prefetch(w2 + ahead + at, _MM_HINT_T1);
    }
}

#define PRODUCT_OF(Item, C, A, B) \
    if constexpr (sizeof(Item) == 1) _tile_dpbssd(C, A, B); else _tile_dpbf16ps(C, A, B)

// Two strips and up to two blocks of 16 rows; `next`: bytes from one strip of weights to the next.
template <class Item, class Sum>
inline void tile_sums(const Rows<Item>& rows, int64_t block, int blocks, const char* w, int64_t next, int strips, Sum* sums) {
    const char* a = (const char*)rows.data + block * rows.tiles * TILE;
    const char* a2 = a + (blocks > 1 ? rows.tiles * TILE : 0);
    const char* w2 = w + (strips > 1 ? next : 0);
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    if (blocks > 1)
        for (int64_t t = 0; t < rows.tiles; t++) {
            fetch(w, w2, strips * next + t * TILE, block, rows.blocks);
            _tile_loadd(6, w + t * TILE, TILE_BYTES);
            _tile_loadd(4, a + t * TILE, TILE_BYTES);
            _tile_loadd(7, w2 + t * TILE, TILE_BYTES);
            _tile_loadd(5, a2 + t * TILE, TILE_BYTES);
            PRODUCT_OF(Item, 0, 4, 6);
            PRODUCT_OF(Item, 1, 4, 7);
            PRODUCT_OF(Item, 2, 5, 6);
            PRODUCT_OF(Item, 3, 5, 7);
        }
    else
        for (int64_t t = 0; t < rows.tiles; t++) {
            fetch(w, w2, strips * next + t * TILE, block, rows.blocks);
            _tile_loadd(6, w + t * TILE, TILE_BYTES);
            _tile_loadd(4, a + t * TILE, TILE_BYTES);
            _tile_loadd(7, w2 + t * TILE, TILE_BYTES);
            PRODUCT_OF(Item, 0, 4, 6);
            PRODUCT_OF(Item, 1, 4, 7);
        }
    _tile_stored(0, sums, 64);
    _tile_stored(1, sums + 32 * STRIP, 64);
    if (blocks > 1) {
        _tile_stored(2, sums + 16 * STRIP, 64);
        _tile_stored(3, sums + 48 * STRIP, 64);
    }
}

constexpr int64_t CHUNK = 2;  // times 32 terms of two strips, which fit the first cache

// The sums of two strips with blocks of 16 rows in float32, 64 lines for every two blocks: of some terms after the others, small
// products first.
inline void split_sums(const Rows<float>& rows, int64_t from, int64_t to, const char* w, int64_t next, int strips, float* sums) {
    const int64_t part = rows.blocks * rows.tiles * TILE;
    for (int64_t first = 0; first < rows.tiles; first += CHUNK) {
        const int64_t some = std::min(CHUNK, rows.tiles - first);
        const char *one = w + first * 3 * TILE, *two = one + (strips > 1 ? next : 0);
        for (int64_t block = from; block < to; block += 2) {
            const bool both = block + 1 < to;
            const char *a = (const char*)rows.data + (block * rows.tiles + first) * TILE, *a2 = a + (both ? rows.tiles * TILE : 0);
            float* here = sums + (block - from) * 32 * STRIP;
            if (first) {
                _tile_loadd(0, here, 64);
                _tile_loadd(1, here + 32 * STRIP, 64);
                _tile_loadd(2, here + 16 * STRIP, 64);
                _tile_loadd(3, here + 48 * STRIP, 64);
            } else {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
            }
#define ROWS_OF(P) \
    _tile_loadd(4, a + (P) * part + t * TILE, TILE_BYTES); \
    _tile_loadd(5, a2 + (P) * part + t * TILE, TILE_BYTES);
#define WEIGHTS_OF(P) \
    _tile_loadd(6, one + (t * 3 + (P)) * TILE, TILE_BYTES); \
    _tile_loadd(7, two + (t * 3 + (P)) * TILE, TILE_BYTES);
#define MULTIPLY_THEM \
    _tile_dpbf16ps(0, 4, 6); \
    _tile_dpbf16ps(1, 4, 7); \
    if (both) { \
        _tile_dpbf16ps(2, 5, 6); \
        _tile_dpbf16ps(3, 5, 7); \
    }
            for (int64_t t = 0; t < some; t++) {
                for (int p = 0; p < 3; p++) fetch(one, two, strips * next + (t * 3 + p) * TILE, block, rows.blocks);
                ROWS_OF(0) WEIGHTS_OF(2) MULTIPLY_THEM
                WEIGHTS_OF(1) MULTIPLY_THEM
                ROWS_OF(1) MULTIPLY_THEM
                WEIGHTS_OF(0) MULTIPLY_THEM
                ROWS_OF(2) MULTIPLY_THEM
            }
            for (int64_t t = 0; t < some; t++) {
                ROWS_OF(0) WEIGHTS_OF(0) MULTIPLY_THEM
            }
            _tile_stored(0, here, 64);
            _tile_stored(1, here + 32 * STRIP, 64);
            _tile_stored(2, here + 16 * STRIP, 64);
            _tile_stored(3, here + 48 * STRIP, 64);
        }
    }
}
#else
inline void split_sums(const Rows<float>&, int64_t, int64_t, const char*, int64_t, int, float*) {}
#endif

template <class Item>
constexpr int STEPS = ROW_BYTES<Item> / BYTES<Item>;  // of a tile

// The two strips that are multiplied next. They come from far away: while some rows are multiplied with a tile of these strips, a
// share of the next tiles is asked for, `step` bytes on with each `BYTES` of the rows.
struct Ahead {
    const char* from;
    int64_t step;
};

constexpr int64_t SHORT = 1 << 15;  // bytes: of what is longer, two strips for one row, the processor itself asks early enough

// What is asked for instead of so many lines of the next strips. BEGINNINGS: a line of each of them by turns. FURTHER_ON: a line of
// both strips that are read, so many tiles on, which is faster for two rows and more where two strips are longer than SHORT.
constexpr int BEGINNINGS = -1, FURTHER_ON = -2, TILES_ON = 4;

// To which cache lines come. The first is faster where a step asks for more than one line, as for few rows with AVX-512, and in int8; it
// is not where a step in bfloat16 or float32 asks for one.
template <int LINES, class Item>
constexpr int CACHE = NARROW && (LINES != 1 || sizeof(Item) == 1) ? 3 : 2;

// R rows with S strips, two after two in `sums`; LINES: how many lines of the next ones are asked for with each `BYTES` of the
// rows, or one of the above.
template <int R, int S, int LINES, class Item, class Sum>
inline void few_sums(const Rows<Item>& rows, int64_t row, const char* w, int64_t next, Ahead ahead, Sum* sums) {
    Sums acc[R][S];
    for (int64_t t = 0; t < rows.tiles; t++) {
        const char *a = line_of(rows, row, t), *more = R > TALL<Item> ? line_of(rows, row + TALL<Item>, t) : a;
        const char* asked = ahead.from + t * 2 * TILE;
        if (LINES == FURTHER_ON) asked = w + (t + TILES_ON) * TILE + (t + TILES_ON < rows.tiles ? 0 : next);
        auto add = [&](int k) {
            const char* at = w + t * TILE + k * (TILE / ROW_BYTES<Item>);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++)
#pragma GCC unroll 8
                for (int s = 0; s < S; s++)
                    acc[r][s].add((r < TALL<Item> ? a : more) + r % TALL<Item> * ROW_BYTES<Item> + k, (const Item*)(at + s * next));
        };
        if constexpr (LINES == 0)
            for (int k = 0; k < ROW_BYTES<Item>; k += BYTES<Item>) add(k);
        else if constexpr (LINES == BEGINNINGS)
#pragma GCC unroll 1
            for (int k = 0; k < STEPS<Item>; k++) {
                const int64_t i = t * STEPS<Item> + k;
                __builtin_prefetch(ahead.from + i % S * next + i / S * 64, 0, (CACHE<LINES, Item>));
                add(k * BYTES<Item>);
            }
        else
#pragma GCC unroll 1  // many requests at once fill the processor's queue
            for (int k = 0; k < ROW_BYTES<Item>; k += BYTES<Item>, asked += LINES == FURTHER_ON ? 64 : ahead.step) {
                __builtin_prefetch(asked, 0, (CACHE<LINES, Item>));
                if constexpr (LINES != 1) __builtin_prefetch(asked + (LINES == FURTHER_ON ? next : 64), 0, (CACHE<LINES, Item>));
                add(k);
            }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; r++)  // by name, so that the sums stay in registers until here
#pragma GCC unroll 8
        for (int s = 0; s < S; s++) acc[r][s].store(sums + (s * 32 + row % BLOCK<Item> + r) * STRIP);
}

// Up to R rows at once, so that weights that come from memory are read once.
template <int R, int LINES, class Item, class Sum>
inline void last_sums(int count, const Rows<Item>& rows, int64_t row, const char* w, int64_t next, Ahead ahead, Sum* sums) {
    if (count == R) few_sums<R, 2, LINES>(rows, row, w, next, ahead, sums);
    else if constexpr (R > 1) last_sums<R - 1, LINES>(count, rows, row, w, next, ahead, sums);
}

// All rows where they are few, with vectors of 512 bits. A function of its own: written into `sums_of`, one row of int8 took a
// twentieth longer.
template <class Item, class Sum>
__attribute__((noinline)) void sums_of_few(const Rows<Item>& rows, const char* w, int64_t next, Ahead ahead, Sum* sums) {
    const int count = int(rows.count);
    if (2 * next <= SHORT) last_sums<FEW<Item>, 2 * TILE / STEPS<Item> / 64>(count, rows, 0, w, next, ahead, sums);
    else if (count > 1) last_sums<FEW<Item>, FURTHER_ON>(count, rows, 0, w, next, ahead, sums);
    else few_sums<1, 2, 0>(rows, 0, w, next, ahead, sums);
}

template <class Item, class Sum>
inline void sums_of(const Rows<Item>& rows, int64_t block, int blocks, const char* w, int64_t next, int strips,
                    Ahead ahead, Sum* sums) {
#ifdef __AMX_INT8__
    if constexpr (sizeof(Item) < 4) return tile_sums(rows, block, blocks, w, next, strips, sums);
    else return;  // all blocks at once, see `product`
#endif
    if (strips == 1) next = 0;
    if constexpr (STRIP > 8)
        if (rows.count <= FEW<Item>) return sums_of_few(rows, w, next, ahead, sums);
    if (rows.count == 1 && 2 * next > SHORT) return few_sums<1, 2, 0>(rows, 0, w, next, ahead, sums);
    constexpr int LINES = 2 * TILE / STEPS<Item> / 64;
    if (rows.count <= FEW<Item>) return last_sums<FEW<Item>, LINES>(int(rows.count), rows, 0, w, next, ahead, sums);
    for (int b = 0; b < blocks; b++) {
        int64_t row = (block + b) * BLOCK<Item>, last = std::min(row + BLOCK<Item>, rows.count);
        Sum* here = sums + b * BLOCK<Item> * STRIP;
        for (; row + AT_ONCE<Item> <= last; row += AT_ONCE<Item>, ahead.from += ahead.step * STEPS<Item>)
            few_sums<AT_ONCE<Item>, 2, 1>(rows, row, w, next, ahead, here);
        last_sums<AT_ONCE<Item> - 1, 1>(int(last - row), rows, row, w, next, ahead, here);
    }
}

constexpr int WIDEST = side<float>(1);

// R rows with as many strips. The processor asks for what follows in a strip, once it has seen its beginning. A function of its own:
// GCC keeps no sums in registers where several of these are written into one.
template <int R, class Item, class Sum>
__attribute__((noinline)) void wide_sums_of(const Rows<Item>& rows, const char* w, int64_t next, Sum* sums) {
    constexpr int S = side<Item>(R);
    if (S == 8 || next > SHORT) few_sums<R, S, 0>(rows, 0, w, next, {}, sums);
    else few_sums<R, S, BEGINNINGS>(rows, 0, w, next, {w + S * next, 0}, sums);
}

// Of all rows.
template <int R = 1, class Item, class Sum>
inline void wide_sums(const Rows<Item>& rows, const char* w, int64_t next, Sum* sums) {
    if constexpr (side<Item>(R) > 2) {
        if (rows.count == R) wide_sums_of<R>(rows, w, next, sums);
        else wide_sums<R + 1>(rows, w, next, sums);
    }
}

// What becomes of sums, for the columns of a strip: both scales are undone, the bias is added.
template <class Item>
struct Finish {
    Floats scale, bias, moved;
    Finish(const Weights& w, int64_t column, int n) {
        bias = w.bias ? load_some(w.bias + column, n) : Floats{};
        if (sizeof(Item) > 1) return;
        scale = load(w.scale + column);
        if (!MOVED) return;
        Ints sum;
        std::memcpy(&sum, w.sum + column, sizeof sum);
        moved = (Floats)sum;
    }
    Floats of(const Rows<Item>&, int64_t, const float* sums) const { return load(sums) + bias; }
    Floats of(const Rows<Item>& rows, int64_t row, const int32_t* sums) const {
        Ints sum;
        std::memcpy(&sum, sums, sizeof sum);
        if (MOVED) sum -= (Ints)moved;
        return __builtin_convertvector(sum, Floats) * scale * rows.step[row] + bias;
    }
};

// Gives `sink` the numbers of x W^T + b: `pair(thread, row, column, y, y2)` two vectors of them, `some(thread, row, column, n, y)` up
// to one at the end of a row; columns ascend for each thread, and of `whole_pairs` pairs of strips one thread has all. The sums of one
// part are finished while the tiles of the next are multiplied.
template <class Item, class Sink>
void product(const Rows<Item>& rows, const Weights& w, int threads, Sink& sink, int64_t whole_pairs = 1) {
    typedef std::conditional_t<sizeof(Item) == 1, int32_t, float> Sum;
    const int64_t strips = (w.out + STRIP - 1) / STRIP, pairs = (strips + 1) / 2, next = w.next<Item>();
    const int64_t shares = (pairs + whole_pairs - 1) / whole_pairs;
    auto begin_of = [&](int part) { return std::min(pairs, shares * part / threads * whole_pairs); };
    constexpr bool split = SPLIT && sizeof(Item) == 4;
    // As many rows at a time as stay in a cache beside the weights.
    const int64_t most = std::max<int64_t>(2, NEAR * (split ? 2 : 1) / (rows.tiles * BLOCK<Item> * ROW_BYTES<Item> * (split ? 3 : 1)) / 2 * 2);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        Tiles tiles;
        (void)tiles;
        alignas(64) Sum space[std::max(2, WIDEST / 2)][64 * STRIP];
        static thread_local std::vector<Sum> whole;
        if (split) whole.resize(size_t(std::min(most, rows.blocks) + 1) / 2 * 64 * STRIP);
        struct Part {
            int64_t pair, block, blocks;
        } before{-1, 0, 0};
        int at = 0;
        auto finish = [&](const Part& done, const Sum* sums) {
            const int64_t column = done.pair * 2 * STRIP, last = std::min(rows.count, (done.block + done.blocks) * BLOCK<Item>);
            const int left = int(std::min<int64_t>(2 * STRIP, w.out - column)), second = std::max(0, left - STRIP);
            const Finish<Item> one(w, column, left), two(w, second ? column + STRIP : column, second ? second : left);
            for (int64_t row = done.block * BLOCK<Item>; row < last; row++) {
                const Sum* here = sums + (row - done.block * BLOCK<Item>) * STRIP;
                const Floats y = one.of(rows, row, here);
                if (left == 2 * STRIP) {
                    sink.pair(part, row, column, y, two.of(rows, row, here + 32 * STRIP));
                    continue;
                }
                sink.some(part, row, column, std::min(left, STRIP), y);
                if (second) sink.some(part, row, column + STRIP, second, two.of(rows, row, here + 32 * STRIP));
            }
        };
        const int64_t last_pair = begin_of(part + 1), wide = side<Item>(rows.count) / 2;
        for (int64_t from = 0; from < rows.blocks; from += most)
            for (int64_t pair = begin_of(part); pair < last_pair; pair++) {
                if (wide > 1 && pair + wide <= last_pair && (pair + wide) * 2 <= strips) {
                    wide_sums(rows, w.data + pair * 2 * next, next, space[0]);
                    for (int64_t i = 0; i < wide; i++) finish({pair + i, 0, 1}, space[i]);
                    pair += wide - 1;
                    continue;
                }
                const int two = int(std::min<int64_t>(2, strips - pair * 2));
                const int64_t to = std::min(rows.blocks, from + most);
                const char* strip = w.data + pair * 2 * next;
                const int64_t some = std::min(rows.count, to * BLOCK<Item>) - from * BLOCK<Item>;
                const int64_t passes = rows.count <= FEW<Item> ? 1 : (some + AT_ONCE<Item> - 1) / AT_ONCE<Item>;
                const int64_t step = (2 * TILE / STEPS<Item> + passes - 1) / passes;
                if constexpr (split) {
                    split_sums(rows, from, to, strip, next, two, whole.data());
                    for (int64_t block = from; block < to; block += 2)
                        finish({pair, block, std::min<int64_t>(2, to - block)}, whole.data() + (block - from) * 32 * STRIP);
                    continue;
                }
                for (int64_t block = from; block < to; block += 2) {
                    const Part now{pair, block, std::min<int64_t>(2, to - block)};
                    const Ahead ahead{strip + 2 * next + (block - from) * (BLOCK<Item> / AT_ONCE<Item>) * STEPS<Item> * step, step};
                    sums_of(rows, block, int(now.blocks), strip, next, two, ahead, space[at]);
                    if (before.pair >= 0) finish(before, space[1 - at]);
                    before = now;
                    at = 1 - at;
                }
            }
        if (before.pair >= 0) finish(before, space[1 - at]);
    }
}

template <class T>
struct Written {
    T* out;
    int64_t next;
    void pair(int, int64_t row, int64_t column, Floats y, Floats y2) const { store_pair(out + row * next + column, y, y2); }
    void some(int, int64_t row, int64_t column, int n, Floats y) const { store_some(out + row * next + column, y, n); }
};

template <class Item, class T>
void product_into(const T* x, int64_t count, const Weights& w, T* out, int threads) {
    Written<T> sink{out, w.out};
    product(laid_out<Item>(x, w.width, count, w.width), w, threads, sink);
}

}  // namespace
