// Kernels for decoding on a processor, one call each: products with packed weights, the best words of an output layer without
// its logits, one step of attention, layer norm.
//
// One source for every processor: it is compiled for the instructions of one, see build.py.

#include <sys/syscall.h>
#include <unistd.h>

#include "products.h"
#include "rows.h"

namespace {

constexpr float LOG2_E = 1.44269504f;

// The n best of a row so far, the best first, of equals the first; and log sum exp as highest + log(sum).
struct Best {
    float* value;   // of n, with room for whole vectors
    int32_t* word;  // likewise
    int n;
    float bound = NOTHING;  // the last of them
    float highest = NOTHING, end = NOTHING;
    Floats sum{};

    // x, which is above the bound, takes its place; the last leaves.
    void add(float x, int32_t id) {
#ifdef __AVX512F__
        if (n <= STRIP) {
            const __m512 old = _mm512_loadu_ps(value), put = _mm512_set1_ps(x);
            const __mmask16 before = _mm512_cmp_ps_mask(old, put, _CMP_GE_OQ);  // sorted: they are the first
            const __mmask16 others = __mmask16(~(before + 1));
            _mm512_storeu_ps(value, _mm512_mask_expand_ps(put, others, old));
            _mm512_storeu_si512(word, _mm512_mask_expand_epi32(_mm512_set1_epi32(id), others, _mm512_loadu_si512(word)));
            bound = value[n - 1];
            return;
        }
#endif
        int at = n - 1;
        for (; at > 0 && x > value[at - 1]; at--) value[at] = value[at - 1], word[at] = word[at - 1];
        value[at] = x, word[at] = id;
        bound = value[n - 1];
    }
};

struct Search {
    std::vector<Best>& all_best;
    int64_t count;
    int64_t first, end;
    float reward;
    bool sums;
    const uint8_t* forbidden;  // [count / per][out]; null: no word is
    int64_t per, out;

    void pair(int part, int64_t row, int64_t column, Floats y, Floats y2) const {
        Best& best = all_best[part * count + row];
        if (forbidden) {
            const uint8_t* hidden = forbidden + row / per * out + column;
            if (!std::memchr(hidden, 0, 2 * STRIP)) return;
            hide(hidden, STRIP, y), hide(hidden + STRIP, STRIP, y2);
        }
        const Floats high = largest(y, y2);
        if (sums) add(best, high, y, &y2);
        // Nearly all words are neither special nor among the best so far.
        if (column > std::max(first, end) && !any_above(high, best.bound)) return;
        look(best, column, STRIP, y);
        look(best, column + STRIP, STRIP, y2);
    }

    void some(int part, int64_t row, int64_t column, int some, Floats y) const {
        Best& best = all_best[part * count + row];
        if (forbidden) hide(forbidden + row / per * out + column, some, y);
        for (int i = some; i < STRIP; i++) y[i] = NOTHING;
        if (sums) add(best, y, y, nullptr);
        look(best, column, some, y);
    }

    static void hide(const uint8_t* hidden, int some, Floats& y) {
        for (int i = 0; i < some; i++) y[i] = hidden[i] ? NOTHING : y[i];
    }

    // To the sum of exponentials. What is behind the end of a row, or forbidden, is -inf.
    void add(Best& best, Floats high, Floats y, const Floats* y2) const {
        if (any_above(high, best.highest)) {
            const float highest = max_of(high);
            best.sum = best.sum * (best.highest == NOTHING ? 0.0f : std::exp(best.highest - highest));
            best.highest = highest;
        }
        if (best.highest == NOTHING) return;
        best.sum += power_of_two((y - best.highest) * LOG2_E);
        if (y2) best.sum += power_of_two((*y2 - best.highest) * LOG2_E);
    }

    void look(Best& best, int64_t column, int some, Floats y) const {
        if (end >= column && end < column + some) {
            best.end = y[end - column];
            y[end - column] -= reward;
        }
        if (column < first)
            for (int i = 0; i < STRIP && column + i < first; i++) y[i] = NOTHING;
        uint32_t left = above(y, best.bound) & ((1u << some) - 1);
        if (!left) return;
        alignas(64) float each[STRIP];
        store(each, y);
        for (; left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            if (each[i] > best.bound) best.add(each[i], int32_t(column + i));
        }
    }
};

template <class Item, class T>
void best_of(const T* x, int64_t count, const Weights& w, int n, int64_t first, int64_t end, float reward, int sums,
             const uint8_t* forbidden, int64_t per, float* values, int64_t* words, float* ends, float* logs, int threads) {
    // Of several words that no row has, none is the end: a row has that once.
    const int32_t none = int32_t(n > 1 && first == end ? end + 1 : first);
    const int64_t line = (n + STRIP - 1) / STRIP * STRIP;
    std::vector<float> value(size_t(threads * count * line), NOTHING);
    std::vector<int32_t> word(value.size(), none);
    std::vector<Best> all_best(threads * count);
    for (int64_t i = 0; i < threads * count; i++)
        all_best[i].value = &value[i * line], all_best[i].word = &word[i * line], all_best[i].n = n;
    Search search{all_best, count, first, end, reward, sums != 0, forbidden, per, w.out};
    product(laid_out<Item>(x, w.width, count, w.width), w, threads, search);
    for (int64_t row = 0; row < count; row++) {
        Best& best = all_best[row];
        float sum = sum_of(best.sum);
        for (int part = 1; part < threads; part++) {  // later threads have later words
            Best& other = all_best[part * count + row];
            for (int i = 0; i < n && other.value[i] > best.bound; i++) best.add(other.value[i], other.word[i]);
            best.end = std::max(best.end, other.end);
            const float high = std::max(best.highest, other.highest);
            if (sums && high != NOTHING) {
                sum = sum * std::exp(best.highest - high) + sum_of(other.sum) * std::exp(other.highest - high);
                best.highest = high;
            }
        }
        std::copy_n(best.value, n, values + row * n);
        std::copy_n(best.word, n, words + row * n);
        ends[row] = best.end;
        logs[row] = best.highest + std::log(sum);
    }
}

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

// int8 [out][width], bfloat16 or float32: four or two neighbours of a row lie together, or one, for each of the rows of a strip.
// Where float32 is split, two neighbours, in three parts.
void calque_pack(const char* weight, int64_t out, int64_t width, int item, char* packed, int32_t* sums) {
    const bool split = SPLIT && item == 4;
    const int64_t bytes = split ? 2 : item, per = TILE_BYTES / bytes, together = 4 / bytes, parts = split ? 3 : 1;
    const int64_t next = tiles_of(width, item);
    std::memset(packed, 0, size_t(calque_packed_bytes(out, width, item)));
    for (int64_t o = 0; o < out; o++) {
        int32_t sum = 0;
        for (int64_t k = 0; k < width; k++) {
            const int64_t tile = o / STRIP * next + k / per * parts, line = k % per / together;
            char* to = packed + tile * TILE + line * LINE + (o % STRIP) * 4 + k % together * bytes;
            const char* from = weight + (o * width + k) * item;
            sum += item == 1 ? *from : 0;
            if (!split) {
                std::memcpy(to, from, size_t(item));
                continue;
            }
            float left = *(const float*)from;
            for (int part = 0; part < 3; part++, to += TILE) {
                const Floats top = (Floats)rounded_to_half(all(left));
                std::memcpy(to, (const char*)&top + 2, 2);
                left -= top[0];
            }
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
                 float reward, int with_sums, const uint8_t* forbidden, int64_t per, float* values, int64_t* words, float* ends, float* logs, int threads) {
    const Weights w{packed, scale, sums, bias, out, width};
#define BEST(Item, T) \
    best_of<Item>((const T*)x, rows, w, n, first, end, reward, with_sums, forbidden, per, values, words, ends, logs, threads)
    if (item == 1 && type == 4) BEST(int8_t, float);
    if (item == 1 && type == 2) BEST(int8_t, Half);
    if (item == 2 && type == 4) BEST(Half, float);
    if (item == 2 && type == 2) BEST(Half, Half);
    if (item == 4 && type == 4) BEST(float, float);
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
