// Kernels for decoding on a processor: products with packed weights in int8, bfloat16 and float32, the best words of an
// output layer without its logits, and one step of attention.
//
// One source for every processor: it is compiled for the instructions of one, see build.py. A strip is 16 columns of a
// product (16 rows of its weights); weights are packed strip by strip, so that each is read once, in order. All sums of a
// row are taken in one order, whatever other rows there are.

#include <sys/syscall.h>
#include <unistd.h>

#include <vector>

#include "vectors.h"

namespace {

constexpr int TILE_BYTES = 64;  // of a row of a tile
constexpr int TILE = 16 * TILE_BYTES;
constexpr int64_t NEAR = 1 << 19;  // bytes of rows beside which weights stay in a cache

// Products of bytes without tiles take the input as numbers from 0 to 255: moved up by 128.
#if !defined(__AMX_INT8__) && defined(__AVX512F__)
constexpr bool MOVED = true;
#else
constexpr bool MOVED = false;
#endif

// ---------------------------------------------------------------------------------------------------------------------
// Rows of the input, laid out in tiles: [rows / 16][width / tile][16][64 bytes], zeros where there is nothing.

template <class Item>
struct Rows {
    int64_t count, blocks, tiles;
    std::vector<float> step;  // int8: the scale of each row
    Item* data;
};

thread_local std::vector<char> scratch;

template <class Item>
Rows<Item> new_rows(int64_t count, int64_t width) {
    const int64_t per = TILE_BYTES / sizeof(Item);
    Rows<Item> rows{count, (count + 15) / 16, (width + per - 1) / per, {}, nullptr};
    size_t bytes = size_t(rows.blocks) * rows.tiles * TILE + 64;
    if (scratch.size() < bytes) scratch.resize(bytes);
    rows.data = (Item*)((uintptr_t(scratch.data()) + 63) & ~uintptr_t(63));
    return rows;
}

template <class Item>
inline char* line_of(const Rows<Item>& rows, int64_t row, int64_t tile) {
    return (char*)rows.data + ((row / 16 * rows.tiles + tile) * 16 + row % 16) * TILE_BYTES;
}

template <class T>
Rows<int8_t> quantised(const T* x, int64_t count, int64_t width) {
    Rows<int8_t> rows = new_rows<int8_t>(count, width);
    rows.step.resize(rows.blocks * 16);
    for (int64_t i = 0; i < count; i++) {
        const T* row = x + i * width;
        Floats highest{};
        for (int64_t k = 0; k < width; k += STRIP) {
            Floats v = load_some(row + k, int(width - k));
            highest = largest(highest, v < 0 ? -v : v);
        }
        float step = std::max(max_of(highest), 1e-30f) * (1.0f / 127.0f);
        rows.step[i] = step;
        for (int64_t tile = 0; tile < rows.tiles; tile++) {
            alignas(64) int8_t line[TILE_BYTES] = {};
            for (int part = 0; part < 4; part++) {
                int64_t k = tile * TILE_BYTES + part * STRIP;
                if (k >= width) break;
                typedef int8_t Bytes __attribute__((vector_size(16)));
                // Adding and taking away the magic number rounds to the nearest whole number, halves to even.
                Floats v = (load_some(row + k, int(width - k)) / step + 12582912.0f) - 12582912.0f;
                Bytes b = __builtin_convertvector(__builtin_convertvector(v, Ints), Bytes);
                std::memcpy(line + part * STRIP, &b, STRIP);
            }
            if (MOVED)
                for (auto& x : line) x = int8_t(x ^ 0x80);
            std::memcpy(line_of(rows, i, tile), line, TILE_BYTES);
        }
    }
    for (int64_t i = count; i < rows.blocks * 16; i++)
        for (int64_t tile = 0; tile < rows.tiles; tile++) std::memset(line_of(rows, i, tile), 0, TILE_BYTES);
    return rows;
}

template <class T>
Rows<float> widened(const T* x, int64_t count, int64_t width) {
    Rows<float> rows = new_rows<float>(count, width);
    for (int64_t i = 0; i < rows.blocks * 16; i++)
        for (int64_t tile = 0; tile < rows.tiles; tile++) {
            const int64_t k = tile * STRIP;
            store((float*)line_of(rows, i, tile), i < count ? load_some(x + i * width + k, int(width - k)) : Floats{});
        }
    return rows;
}

template <class T>
Rows<Half> halved(const T* x, int64_t count, int64_t width) {
    Rows<Half> rows = new_rows<Half>(count, width);
    for (int64_t i = 0; i < rows.blocks * 16; i++)
        for (int64_t tile = 0; tile < rows.tiles; tile++) {
            Half* line = (Half*)line_of(rows, i, tile);
            for (int part = 0; part < 2; part++) {
                int64_t k = tile * 32 + part * STRIP;
                Floats v = i < count && k < width ? load_some(x + i * width + k, int(width - k)) : Floats{};
                store(line + part * STRIP, v);
            }
        }
    return rows;
}

template <class Item, class T>
Rows<Item> laid_out(const T* x, int64_t count, int64_t width) {
    if constexpr (sizeof(Item) == 1) return quantised(x, count, width);
    else if constexpr (sizeof(Item) == 2) return halved(x, count, width);
    else return widened(x, count, width);
}

// ---------------------------------------------------------------------------------------------------------------------
// Sums of 16 or 32 rows with one or two strips: sums[strip][row][16].

#ifdef __AMX_INT8__
struct alignas(64) TileShape {
    uint8_t palette = 1, start = 0, unused[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
const TileShape tile_shape;

struct Tiles {
    Tiles() { _tile_loadconfig(&tile_shape); }
    ~Tiles() { _tile_release(); }
};
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
#else
struct Tiles {};
#endif

// The sums of a strip: 16 numbers of 32 bits.
#ifdef __AVX512F__
constexpr int AT_ONCE = 8;  // rows
struct Sums {
    __m512i v = _mm512_setzero_si512();
    void add(__m512i a, const int8_t* w) {  // four terms of each; the input is moved up by 128
#ifdef __AVX512VNNI__
        v = _mm512_dpbusd_epi32(v, a, _mm512_loadu_si512(w));
#else
        __m512i b = _mm512_loadu_si512(w), low = _mm512_set1_epi32(0x00ff00ff);
        __m512i even = _mm512_srai_epi16(_mm512_slli_epi16(b, 8), 8), odd = _mm512_srai_epi16(b, 8);
        v = _mm512_add_epi32(v, _mm512_madd_epi16(_mm512_and_si512(a, low), even));
        v = _mm512_add_epi32(v, _mm512_madd_epi16(_mm512_srli_epi16(a, 8), odd));
#endif
    }
    void add(__m512i a, const float* w) {
        v = (__m512i)_mm512_fmadd_ps((__m512)a, _mm512_loadu_ps(w), (__m512)v);
    }
    void add(__m512i a, const Half* w) {  // two terms of each
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
inline __m512i spread(const char* terms) { return _mm512_set1_epi32(*(const int32_t*)terms); }
#else
constexpr int AT_ONCE = 2;
struct Sums {
    __m256i v[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    void add(__m256i a, const int8_t* w) {
        // Neither side has -128, so that two terms fit 16 bits.
        for (int half = 0; half < 2; half++) {
            __m256i b = _mm256_sign_epi8(_mm256_loadu_si256((const __m256i*)w + half), a);
            __m256i two = _mm256_maddubs_epi16(_mm256_abs_epi8(a), b);
            v[half] = _mm256_add_epi32(v[half], _mm256_madd_epi16(two, _mm256_set1_epi16(1)));
        }
    }
    void add(__m256i a, const float* w) {
        for (int half = 0; half < 2; half++)
            v[half] = (__m256i)_mm256_fmadd_ps((__m256)a, _mm256_loadu_ps(w + half * 8), (__m256)v[half]);
    }
    void add(__m256i a, const Half* w) {
        const __m256i high = _mm256_set1_epi32(int32_t(0xffff0000));
        for (int half = 0; half < 2; half++) {
            __m256i b = _mm256_loadu_si256((const __m256i*)w + half);
            __m256 sum = _mm256_castsi256_ps(v[half]);
            sum = _mm256_fmadd_ps((__m256)_mm256_slli_epi32(a, 16), (__m256)_mm256_slli_epi32(b, 16), sum);
            sum = _mm256_fmadd_ps((__m256)_mm256_and_si256(a, high), (__m256)_mm256_and_si256(b, high), sum);
            v[half] = _mm256_castps_si256(sum);
        }
    }
};
inline __m256i spread(const char* terms) { return _mm256_set1_epi32(*(const int32_t*)terms); }
#endif

template <int R, class Item, class Sum>
inline void few_sums(const Rows<Item>& rows, int64_t row, const char* w, const char* w2, Sum* sums) {
    Sums acc[R][2];
    for (int64_t t = 0; t < rows.tiles; t++) {
        const char* a = line_of(rows, row, t);
        for (int k = 0; k < TILE_BYTES; k += 4) {
            const Item *one = (const Item*)(w + t * TILE + k * 16), *two = (const Item*)(w2 + t * TILE + k * 16);
#pragma GCC unroll 8
            for (int r = 0; r < R; r++) {
                const auto terms = spread(a + r * TILE_BYTES + k);
                acc[r][0].add(terms, one);
                acc[r][1].add(terms, two);
            }
        }
    }
    for (int r = 0; r < R; r++) {
        std::memcpy(sums + (row % 16 + r) * STRIP, &acc[r][0], 64);
        std::memcpy(sums + (32 + row % 16 + r) * STRIP, &acc[r][1], 64);
    }
}

template <class Item, class Sum>
inline void sums_of(const Rows<Item>& rows, int64_t block, int blocks, const char* w, int64_t next, int strips, Sum* sums) {
#ifdef __AMX_INT8__
    if constexpr (sizeof(Item) < 4) return tile_sums(rows, block, blocks, w, next, strips, sums);
#endif
    const char* w2 = w + (strips > 1 ? next : 0);
    for (int b = 0; b < blocks; b++) {
        int64_t row = (block + b) * 16, last = std::min(row + 16, rows.count);
        Sum* here = sums + b * 16 * STRIP;
        for (; row + AT_ONCE <= last; row += AT_ONCE) few_sums<AT_ONCE>(rows, row, w, w2, here);
        if (AT_ONCE > 4 && row + 4 <= last) few_sums<4>(rows, row, w, w2, here), row += 4;
        if (AT_ONCE > 2 && row + 2 <= last) few_sums<2>(rows, row, w, w2, here), row += 2;
        if (row < last) few_sums<1>(rows, row, w, w2, here);
    }
}

// Weights: for each strip its tiles; in int8 then the scales and, if the input is moved up, 128 times the sums of its rows.
struct Weights {
    const char* data;
    const float* scale;
    const int32_t* sum;
    const float* bias;
    int64_t out, width;
    template <class Item>
    int64_t next() const {
        const int64_t per = TILE_BYTES / sizeof(Item);
        return (width + per - 1) / per * TILE;
    }
};

inline Floats finished(const Rows<int8_t>& rows, const Weights& w, int64_t row, int64_t column, int n, const int32_t* sums) {
    Ints sum;
    std::memcpy(&sum, sums, 64);
    if (MOVED) {
        Ints moved;
        std::memcpy(&moved, w.sum + column, 64);
        sum -= moved;
    }
    Floats y = __builtin_convertvector(sum, Floats) * load(w.scale + column) * rows.step[row];
    return w.bias ? y + load_some(w.bias + column, n) : y;
}

template <class Item>
inline Floats finished(const Rows<Item>&, const Weights& w, int64_t, int64_t column, int n, const float* sums) {
    Floats y = load(sums);
    return w.bias ? y + load_some(w.bias + column, n) : y;
}

// Gives `sink(thread, row, column, n, y)` every 16 numbers of x W^T + b; columns ascend for each thread.
template <class Item, class Sink>
void product(const Rows<Item>& rows, const Weights& w, int threads, const Sink& sink) {
    typedef std::conditional_t<sizeof(Item) == 1, int32_t, float> Sum;
    const int64_t strips = (w.out + STRIP - 1) / STRIP, pairs = (strips + 1) / 2, next = w.next<Item>();
    // As many rows at a time as stay in a cache beside the weights.
    const int64_t most = std::max<int64_t>(2, NEAR / (rows.tiles * TILE) / 2 * 2);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        Tiles tiles;
        (void)tiles;
        alignas(64) Sum sums[64 * STRIP];
        for (int64_t from = 0; from < rows.blocks; from += most)
            for (int64_t pair = pairs * part / threads; pair < pairs * (part + 1) / threads; pair++) {
                const int two = int(std::min<int64_t>(2, strips - pair * 2));
                const int64_t to = std::min(rows.blocks, from + most);
                for (int64_t block = from; block < to; block += 2) {
                    const int blocks = int(std::min<int64_t>(2, to - block));
                    sums_of(rows, block, blocks, w.data + pair * 2 * next, next, two, sums);
                    const int64_t last = std::min(rows.count, (block + blocks) * 16);
                    for (int64_t row = block * 16; row < last; row++)
                        for (int s = 0; s < two; s++) {
                            const int64_t column = (pair * 2 + s) * STRIP;
                            const int n = int(std::min<int64_t>(STRIP, w.out - column));
                            const Sum* at = sums + (s * 32 + row - block * 16) * STRIP;
                            sink(part, row, column, n, finished(rows, w, row, column, n, at));
                        }
                }
            }
    }
}

template <class Item, class T>
void product_into(const T* x, int64_t count, const Weights& w, T* out, int threads) {
    auto write = [&](int, int64_t row, int64_t column, int n, Floats y) {
        store_some(out + row * w.out + column, y, n);
    };
    product(laid_out<Item>(x, count, w.width), w, threads, write);
}

// The n best of a row so far, the best first, of equals the first; and log sum exp as highest + log(sum).
struct Best {
    std::vector<float> value;
    std::vector<int64_t> word;
    float highest = NOTHING;
    Floats sum{};
    float end = NOTHING;

    void add(float x, int64_t id) {
        int at = int(value.size()) - 1;
        for (; at > 0 && x > value[at - 1]; at--) value[at] = value[at - 1], word[at] = word[at - 1];
        value[at] = x, word[at] = id;
    }
};

template <class Item, class T>
void best_of(const T* x, int64_t count, const Weights& w, int n, int64_t first, int64_t end, float reward, int sums,
             float* values, int64_t* words, float* ends, float* logs, int threads) {
    std::vector<Best> all_best(threads * count);
    for (auto& best : all_best) best.value.assign(n, NOTHING), best.word.assign(n, first);
    auto look = [&](int part, int64_t row, int64_t column, int some, Floats y) {
        Best& best = all_best[part * count + row];
        if (some < STRIP)
            for (int i = some; i < STRIP; i++) y[i] = NOTHING;
        if (sums) {
            const float high = max_of(y);
            if (high > best.highest) {
                best.sum = best.sum * (best.highest == NOTHING ? 0.0f : std::exp(best.highest - high));
                best.highest = high;
            }
            if (best.highest != NOTHING) {
                Floats e = exp_of(y - best.highest);
                best.sum += some < STRIP ? (y == NOTHING ? Floats{} : e) : e;
            }
        }
        if (end >= column && end < column + some) {
            best.end = y[end - column];
            y[end - column] -= reward;
        }
        if (column < first)
            for (int i = 0; i < STRIP && column + i < first; i++) y[i] = NOTHING;
        if (any_above(y, best.value[n - 1]))
            for (int i = 0; i < some; i++)
                if (y[i] > best.value[n - 1]) best.add(y[i], column + i);
    };
    product(laid_out<Item>(x, count, w.width), w, threads, look);
    for (int64_t row = 0; row < count; row++) {
        Best& best = all_best[row];
        float sum = sum_of(best.sum);
        for (int part = 1; part < threads; part++) {  // later threads have later words
            Best& other = all_best[part * count + row];
            for (int i = 0; i < n && other.value[i] > best.value[n - 1]; i++) best.add(other.value[i], other.word[i]);
            best.end = std::max(best.end, other.end);
            const float high = std::max(best.highest, other.highest);
            if (sums && high != NOTHING) {
                sum = sum * std::exp(best.highest - high) + sum_of(other.sum) * std::exp(other.highest - high);
                best.highest = high;
            }
        }
        std::copy(best.value.begin(), best.value.end(), values + row * n);
        std::copy(best.word.begin(), best.word.end(), words + row * n);
        ends[row] = best.end;
        logs[row] = best.highest + std::log(sum);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention of single queries to keys and values [sentence][head][slot][width].

// The sums of four vectors, added up pairwise.
inline void four_sums(const Floats* x, float* sums) {
    const Ints even = {0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30}, odd = even + 1;
    const Ints low = {0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29}, high = low + 2;
    Floats a = mixed(x[0], x[1], even) + mixed(x[0], x[1], odd), b = mixed(x[2], x[3], even) + mixed(x[2], x[3], odd);
    Floats c = mixed(a, b, low) + mixed(a, b, high);
    const Ints half = {8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7};
    const Ints quarter = {4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11};
    c += mixed(c, c, half);
    c += mixed(c, c, quarter);
    std::memcpy(sums, &c, 16);
}

// q . k of four keys; `width` numbers, of which q has zeros behind it up to a multiple of 16.
template <class T>
inline void four_dots(const float* q, const T* const* k, int64_t width, float* dots) {
    Floats sums[4]{};
    int64_t d = 0;
    for (; d + STRIP <= width; d += STRIP) {
        const Floats x = load(q + d);
        for (int i = 0; i < 4; i++) sums[i] += x * load(k[i] + d);
    }
    if (d < width)
        for (int i = 0; i < 4; i++) sums[i] += load(q + d) * load_some(k[i] + d, int(width - d));
    four_sums(sums, dots);
}

// q [rows][heads * width] with `q_next` numbers from row to row; `per` rows of a sentence are queries of its slots.
struct Attention {
    int64_t rows, per, heads, width, value_width, visible, q_next;
    int64_t key_sentence, key_head, value_sentence, value_head;  // numbers from one to the next
    int64_t beams, origin_next;  // origin [sentence][beams][origin_next]: whose slot holds each position
    int64_t new_key_next, new_value_next;  // numbers from row to row
    int64_t group;                         // heads of queries that share one of keys and values
    float scale;
};

// The last visible position of a row, which is its own, written where it belongs.
template <class T>
void write_row(const Attention& a, int64_t row, T* keys, T* values, const T* new_keys, const T* new_values) {
    const int64_t sentence = row / a.per, slot = (a.visible - 1) * a.beams + row % a.per;
    for (int64_t h = 0; h < a.heads / a.group; h++) {
        std::memcpy(keys + sentence * a.key_sentence + h * a.key_head + slot * a.width,
                    new_keys + row * a.new_key_next + h * a.width, size_t(a.width) * sizeof(T));
        std::memcpy(values + sentence * a.value_sentence + h * a.value_head + slot * a.value_width,
                    new_values + row * a.new_value_next + h * a.value_width, size_t(a.value_width) * sizeof(T));
    }
}

template <class T>
void attend_row(const Attention& a, int64_t row, const T* q, const T* keys, const T* values, const int16_t* origin,
                const uint8_t* blocked, T* out, std::vector<float>& space) {
    const int64_t sentence = row / a.per, visible = a.visible;
    const int16_t* from = origin ? origin + row * a.origin_next : nullptr;
    const uint8_t* hidden = blocked ? blocked + sentence * visible : nullptr;
    space.resize(visible + a.width + a.value_width + 4 * STRIP);
    float *score = space.data(), *query = score + visible + STRIP, *context = query + a.width + STRIP;
    for (int64_t h = 0; h < a.heads; h++) {
        const T* k = keys + sentence * a.key_sentence + h / a.group * a.key_head;
        const T* v = values + sentence * a.value_sentence + h / a.group * a.value_head;
        for (int64_t d = 0; d < a.width; d += STRIP)
            store(query + d, load_some(q + row * a.q_next + h * a.width + d, int(a.width - d)) * a.scale);
        for (int64_t b = 0; h % a.group == 0 && b < visible * a.beams * a.width * int64_t(sizeof(T)); b += TILE_BYTES) {  // of the next head
            _mm_prefetch((const char*)(k + a.key_head) + b, _MM_HINT_T0);
            _mm_prefetch((const char*)(v + a.value_head) + b, _MM_HINT_T0);
        }
        for (int64_t p = 0; p < visible; p += 4) {
            const T* four[4];
            for (int i = 0; i < 4; i++) {
                const int64_t at = std::min(p + i, visible - 1);
                four[i] = k + (from ? at * a.beams + from[at] : at) * a.width;
            }
            four_dots(query, four, a.width, score + p);
        }
        if (hidden)
            for (int64_t p = 0; p < visible; p++) score[p] = hidden[p] ? NOTHING : score[p];
        for (int64_t p = visible; p < visible + STRIP; p++) score[p] = NOTHING;
        Floats high = all(NOTHING), sums{};
        for (int64_t p = 0; p < visible; p += STRIP) high = largest(high, load(score + p));
        float highest = max_of(high);
        if (highest == NOTHING) {  // nothing to see: the mean of all
            std::fill(score, score + visible, 0.0f);
            highest = 0;
        }
        for (int64_t p = 0; p < visible; p += STRIP) {
            Floats s = load(score + p), e = exp_of(s - highest);
            e = s == NOTHING ? Floats{} : e;
            store(score + p, e);
            sums += e;
        }
        const float share = 1.0f / sum_of(sums);
        int64_t d = 0;
        for (; d + 4 * STRIP <= a.value_width; d += 4 * STRIP) {
            Floats c0{}, c1{}, c2{}, c3{};
            for (int64_t p = 0; p < visible; p++) {
                const T* at = v + (from ? p * a.beams + from[p] : p) * a.value_width + d;
                const float w = score[p];
                c0 += load(at) * w;
                c1 += load(at + STRIP) * w;
                c2 += load(at + 2 * STRIP) * w;
                c3 += load(at + 3 * STRIP) * w;
            }
            store(context + d, c0);
            store(context + d + STRIP, c1);
            store(context + d + 2 * STRIP, c2);
            store(context + d + 3 * STRIP, c3);
        }
        std::fill(context + d, context + a.value_width, 0.0f);
        for (int64_t p = 0; p < visible && d < a.value_width; p++) {
            const T* at = v + (from ? p * a.beams + from[p] : p) * a.value_width;
            for (int64_t j = d; j < a.value_width; j++) context[j] += one(at + j) * score[p];
        }
        T* to = out + (row * a.heads + h) * a.value_width;
        for (int64_t j = 0; j < a.value_width; j += STRIP) store_some(to + j, load(context + j) * share, int(a.value_width - j));
    }
}

template <class T>
void attend(const Attention& a, const T* q, T* keys, T* values, const T* new_keys, const T* new_values,
            const int16_t* origin, const uint8_t* blocked, T* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        std::vector<float> space;
        for (int64_t row = a.rows * part / threads; row < a.rows * (part + 1) / threads; row++) {
            if (new_keys) write_row(a, row, keys, values, new_keys, new_values);
            attend_row(a, row, q, keys, values, origin, blocked, out, space);
        }
    }
}

template <class T>
void norm(const T* x, int64_t rows, int64_t width, const T* gain, const T* shift, float epsilon, T* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const T* in = x + row * width;
        Floats sum{}, squares{};
        for (int64_t d = 0; d < width; d += STRIP) sum += load_some(in + d, int(width - d));
        const float mean = sum_of(sum) / width;
        for (int64_t d = 0; d < width; d += STRIP) {
            Floats apart = load_some(in + d, int(width - d), mean) - mean;
            squares += apart * apart;
        }
        const float scale = 1.0f / std::sqrt(sum_of(squares) / width + epsilon);
        for (int64_t d = 0; d < width; d += STRIP) {
            const int n = int(width - d);
            Floats y = (load_some(in + d, n) - mean) * scale;
            store_some(out + row * width + d, y * load_some(gain + d, n) + load_some(shift + d, n), n);
        }
    }
}

}  // namespace

extern "C" {

// 0, or -1 where the system does not let this process use the processor's tiles.
int calque_start() {
#ifdef __AMX_INT8__
    return syscall(SYS_arch_prctl, 0x1023, 18) == 0 ? 0 : -1;
#else
    return 0;
#endif
}

int64_t calque_packed_bytes(int64_t out, int64_t width, int item) {
    const int64_t per = TILE_BYTES / item;
    return (out + STRIP - 1) / STRIP * ((width + per - 1) / per) * TILE;
}

// int8 [out][width], bfloat16 or float32: four or two neighbours of a row lie together, or one, for each of the 16 rows of a strip.
void calque_pack(const char* weight, int64_t out, int64_t width, int item, char* packed, int32_t* sums) {
    const int64_t per = TILE_BYTES / item, tiles = (width + per - 1) / per, together = 4 / item;
    std::memset(packed, 0, size_t(calque_packed_bytes(out, width, item)));
    for (int64_t o = 0; o < out; o++) {
        int32_t sum = 0;
        for (int64_t k = 0; k < width; k++) {
            const int64_t tile = o / STRIP * tiles + k / per, line = k % per / together;
            char* to = packed + tile * TILE + line * TILE_BYTES + (o % STRIP) * 4 + k % together * item;
            std::memcpy(to, weight + (o * width + k) * item, size_t(item));
            sum += item == 1 ? weight[o * width + k] : 0;
        }
        if (sums) sums[o] = 128 * sum;
    }
}

// item: bytes of a weight; type: bytes of a number of the input and of the output.
void calque_product(const void* x, int type, int64_t rows, const char* packed, int item, const float* scale,
                    const int32_t* sums, const float* bias, int64_t out, int64_t width, void* y, int threads) {
    const Weights w{packed, scale, sums, bias, out, width};
    if (item == 1 && type == 4) product_into<int8_t>((const float*)x, rows, w, (float*)y, threads);
    if (item == 1 && type == 2) product_into<int8_t>((const Half*)x, rows, w, (Half*)y, threads);
    if (item == 2 && type == 4) product_into<Half>((const float*)x, rows, w, (float*)y, threads);
    if (item == 4 && type == 4) product_into<float>((const float*)x, rows, w, (float*)y, threads);
    if (item == 2 && type == 2) product_into<Half>((const Half*)x, rows, w, (Half*)y, threads);
}

void calque_best(const void* x, int type, int64_t rows, const char* packed, int item, const float* scale,
                 const int32_t* sums, const float* bias, int64_t out, int64_t width, int n, int64_t first, int64_t end,
                 float reward, int with_sums, float* values, int64_t* words, float* ends, float* logs, int threads) {
    const Weights w{packed, scale, sums, bias, out, width};
#define BEST(Item, T) \
    best_of<Item>((const T*)x, rows, w, n, first, end, reward, with_sums, values, words, ends, logs, threads)
    if (item == 1 && type == 4) BEST(int8_t, float);
    if (item == 1 && type == 2) BEST(int8_t, Half);
    if (item == 2 && type == 4) BEST(Half, float);
    if (item == 2 && type == 2) BEST(Half, Half);
    if (item == 4 && type == 4) BEST(float, float);
}

void calque_attend(const Attention* a, int type, const void* q, void* keys, void* values, const void* new_keys,
                   const void* new_values, const int16_t* origin, const uint8_t* blocked, void* out, int threads) {
#define ATTEND(T) \
    attend(*a, (const T*)q, (T*)keys, (T*)values, (const T*)new_keys, (const T*)new_values, origin, blocked, (T*)out, threads)
    type == 4 ? ATTEND(float) : ATTEND(Half);
}

void calque_norm(const void* x, int type, int64_t rows, int64_t width, const void* gain, const void* shift, float epsilon,
                 void* y, int threads) {
#define NORM(T) norm((const T*)x, rows, width, (const T*)gain, (const T*)shift, epsilon, (T*)y, threads)
    type == 4 ? NORM(float) : NORM(Half);
}
}
