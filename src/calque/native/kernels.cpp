// Kernels for decoding on a processor, one call each: products with packed weights, the best words of an output layer without
// its logits, one step of attention, layer norm.
//
// One source for every processor: it is compiled for the instructions of one, see build.py.

#include <sys/syscall.h>
#include <unistd.h>

#include <numeric>

#include "rows.h"
#include "screened.h"

namespace {

// Of a sentence's `slots` hypotheses with n candidates each, the best n in all, the best first, of equals the first. `values` -
// `total` are log-probabilities of words, to which those of their hypotheses, `live`, are added. Returns what holds for them.
enum { KEPT_END = 1, KEPT_MOVED = 2 };

int best_of_sentence(const float* values, const int64_t* words, const float* live, const float* total, int64_t slots,
                     int64_t n, int64_t end, float* logp, int64_t* parents, int64_t* chosen) {
    int64_t held = 0;
    for (int64_t slot = 0; slot < slots; slot++)
        for (int64_t i = slot * n; i < (slot + 1) * n; i++) {
            const float x = (total ? values[i] - total[slot] : values[i]) + live[slot];
            if (held == n && !(x > logp[n - 1])) continue;
            int64_t at = held < n ? held++ : n - 1;
            for (; at > 0 && x > logp[at - 1]; at--)
                logp[at] = logp[at - 1], parents[at] = parents[at - 1], chosen[at] = chosen[at - 1];
            logp[at] = x, parents[at] = slot, chosen[at] = words[i];
        }
    int kept = 0;
    for (int64_t i = 0; i < n; i++) {
        if (chosen[i] == end) kept |= KEPT_END;
        if (i < slots && parents[i] != i) kept |= KEPT_MOVED;
    }
    return kept;
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
    return (out + STRIP - 1) / STRIP * tiles_of(width, item) * TILE;
}

// int8 [out][width], bfloat16 or float32, 1, 2 or 4 bytes: four or two neighbours of a row lie together, or one, for each of the
// rows of a strip. Where float32 is split, two neighbours, in three parts. `sums`, if not null: of int8, 128 times those of the rows.
void calque_pack(const void* weight, int64_t out, int64_t width, int item, char* packed, int32_t* sums) {
    if (item == 1) pack((const int8_t*)weight, out, width, packed);
    if (item == 2) pack((const Half*)weight, out, width, packed);
    if (item == 4) pack((const float*)weight, out, width, packed);
    for (int64_t o = 0; sums && o < out; o++) {
        const int8_t* row = (const int8_t*)weight + o * width;
        sums[o] = 128 * std::accumulate(row, row + width, int32_t(0));
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

// `screen`: of these weights, for the best word alone where no sums are wanted; null: none.
void calque_best(const void* x, int type, int64_t rows, const char* packed, int item, const float* scale,
                 const int32_t* sums, const float* bias, int64_t out, int64_t width, int n, int64_t first, int64_t end,
                 float reward, int with_sums, const uint8_t* forbidden, int64_t per, const Screen* screen, float* values,
                 int64_t* words, float* ends, float* logs, int threads) {
    const Weights w{packed, scale, sums, bias, out, width};
    const Asked asked{n, with_sums != 0, first, end, reward, forbidden, per, out};
    const Found found{values, words, ends, logs};
    const bool few = screen && n == 1 && !with_sums && first >= 0 && first < out && end >= 0 && end < out;
#define BEST(Item, T) best_of<Item>((const T*)x, rows, w, asked, found, threads)
#define SCREENED(Item, T) \
    if (few) screened<Item>((const T*)x, rows, w, *screen, asked, found, threads); \
    else BEST(Item, T)
    if (item == 1 && type == 4) BEST(int8_t, float);
    if (item == 1 && type == 2) BEST(int8_t, Half);
    if (item == 2 && type == 4) { SCREENED(Half, float); }
    if (item == 2 && type == 2) { SCREENED(Half, Half); }
    if (item == 4 && type == 4) { SCREENED(float, float); }
}

// See `best_of_sentence`; for all sentences together.
int calque_continue(const float* values, const int64_t* words, const float* live, const float* total, int64_t sentences,
                    int64_t slots, int64_t n, int64_t end, float* logp, int64_t* parents, int64_t* chosen) {
    int kept = 0;
    for (int64_t i = 0; i < sentences; i++)
        kept |= best_of_sentence(values + i * slots * n, words + i * slots * n, live + i * slots, total ? total + i * slots : total, slots,
                                 n, end, logp + i * n, parents + i * n, chosen + i * n);
    return kept;
}

// Row i takes the past of row rows[i]: through which slot of its sentence each position came. Later positions are its own.
int calque_reorder(const int16_t* origin, const int64_t* rows, int64_t count, int64_t held, int64_t slots, int64_t capacity,
                   int64_t past, int16_t* to) {
    for (int64_t i = 0; i < count; i++)
        if (rows[i] < 0 || rows[i] >= held) return -1;
    for (int64_t i = 0; i < count; i++, to += capacity) {
        std::copy_n(origin + rows[i] * capacity, past, to);
        std::fill(to + past, to + capacity, int16_t(i % slots));
    }
    return 0;
}

void calque_attend(const Attention* a, int type, const void* q, void* keys, void* values, const void* new_keys,
                   const void* new_values, const int16_t* origin, const uint8_t* blocked, void* out, int threads) {
#define ATTEND(T) \
    attend(*a, (const T*)q, (T*)keys, (T*)values, (const T*)new_keys, (const T*)new_values, origin, blocked, (T*)out, threads)
    type == 4 ? ATTEND(float) : ATTEND(Half);
}

// `lengths`: of each sentence; null: the longest. `apart`: numbers from the weights of a sentence to those of the next.
void calque_weigh(const float* weights, int64_t apart, const void* values, int type, int64_t sentences, const int64_t* lengths, int64_t heads,
                  int64_t places, int64_t longest, int64_t width, void* out, int threads) {
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (threads > 1)
    for (int64_t s = 0; s < sentences; s++) {
        const int64_t length = lengths ? lengths[s] : longest, next = heads * width;
#define WEIGH(T) \
    weigh(weights + s * apart, (const T*)values + s * longest * next, length, heads, places, longest, width, (T*)out + s * places * next)
        type == 4 ? WEIGH(float) : WEIGH(Half);
    }
}

void calque_norm(const void* x, int type, int64_t rows, int64_t width, const void* gain, const void* shift, float epsilon,
                 void* y, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row += 4) {
#define NORM(T) \
    norm_up_to(rows - row, (const T*)x + row * width, width, width, (const T*)gain, (const T*)shift, epsilon, (T*)y + row * width, width)
        type == 4 ? NORM(float) : NORM(Half);
    }
}
}
