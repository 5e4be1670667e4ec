// The best words of an output layer, without its logits.

#pragma once

#include <algorithm>
#include <cmath>
#include <memory>

#include "products.h"

namespace {

constexpr float LOG2_E = 1.44269504f;

// Words whose exponentials are summed apart. No thread has a part of them, so that the sum of a row does not depend on how many there are.
constexpr int64_t SPAN = 512;
// By how much a logit may be above the one that is taken from all of a span: exponentials of the difference are still small.
constexpr float ABOVE = 16;

// The n best of a row so far, the best first, of equals the first.
struct Best {
    float* value;   // of n, with room for whole vectors
    int32_t* word;  // likewise
    int n;
    float bound = NOTHING;  // the last of them
    float end = NOTHING, taken = NOTHING;  // from the logits of a span, before their exponentials are added up
    int64_t span = 0;
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

// What is asked of the words of every row.
struct Asked {
    int n;
    bool sums;           // whether log sum exp is wanted
    int64_t first, end;  // words before the first may not be chosen
    float reward;        // by which the logit of the end counts as less
    const uint8_t* forbidden;  // [count / per][out]; null: no word is
    int64_t per, out;

    static void hide(const uint8_t* hidden, int some, Floats& y) {
        for (int i = 0; i < some; i++) y[i] = hidden[i] ? NOTHING : y[i];
    }

    // The logits of two strips, forbidden ones -inf. Whether any is left.
    bool hide(int64_t row, int64_t column, Floats& y, Floats& y2) const {
        if (!forbidden) return true;
        const uint8_t* hidden = forbidden + row / per * out + column;
        if (!std::memchr(hidden, 0, 2 * STRIP)) return false;
        hide(hidden, STRIP, y), hide(hidden + STRIP, STRIP, y2);
        return true;
    }

    // The first `some` logits of the last strip of a row, or none.
    void hide(int64_t row, int64_t column, int some, Floats& y) const {
        if (forbidden) hide(forbidden + row / per * out + column, some, y);
        for (int i = some; i < STRIP; i++) y[i] = NOTHING;
    }

    // Whether a strip of words may be chosen and counts as its logits do.
    bool plain(int64_t column) const { return column > std::max(first, end); }

    // The logits as they count. Returns where the end is among them, or -1.
    int counted(int64_t column, Floats& y) const {
        const int at = end >= column && end < column + STRIP ? int(end - column) : -1;
        if (at >= 0) y[at] -= reward;
        for (int i = 0; i < STRIP && column + i < first; i++) y[i] = NOTHING;
        return at;
    }
};

// What is found of every row: the n best words and their logits, the logit of the end, log sum exp.
struct Found {
    float* values;
    int64_t* words;
    float *ends, *logs;
};

// Of every row the sums of exp(y - taken) over the words of each span.
struct Exponentials {
    int64_t spans;
    std::vector<float> taken, sums;
    Exponentials(int64_t count, int64_t words) : spans((words + SPAN - 1) / SPAN), taken(spans * count, NOTHING), sums(spans * count) {}

    // What a row has of a span, which is at its end. Functions of their own: they are rarely called, and where a product and a sum that
    // follows it are in one function, a compiler may round them once or twice.
    __attribute__((noinline)) void keep(int64_t row, Best& best) {
        if (best.taken == NOTHING) return;
        taken[row * spans + best.span] = best.taken, sums[row * spans + best.span] = sum_of(best.sum);
        best.taken = NOTHING;
    }
    static __attribute__((noinline)) void take_more(Best& best, float highest) {
        best.sum = best.taken == NOTHING ? Floats{} : best.sum * std::exp(best.taken - highest);
        best.taken = highest;
    }

    // What is behind the end of a row, or forbidden, is -inf; `high` are the largest of both.
    void add(int64_t row, Best& best, int64_t column, Floats high, Floats y, const Floats* y2) {
        if (column / SPAN != best.span) keep(row, best), best.span = column / SPAN;
        if (any_above(high, best.taken + ABOVE)) take_more(best, max_of(high));
        if (best.taken == NOTHING) return;
        best.sum += power_of_two((y - best.taken) * LOG2_E);
        if (y2) best.sum += power_of_two((*y2 - best.taken) * LOG2_E);
    }

    // log sum exp of a row.
    float log_of(int64_t row) const {
        const float *here = &taken[row * spans], highest = *std::max_element(here, here + spans);
        double sum = 0;
        for (int64_t i = 0; i < spans; i++)
            if (here[i] != NOTHING) sum += double(sums[row * spans + i] * std::exp(here[i] - highest));
        return float(highest + std::log(sum));
    }
};

struct Search {
    std::vector<Best>& all_best;
    int64_t count;
    const Asked& asked;
    Exponentials* sums;  // null: not wanted

    void pair(int part, int64_t row, int64_t column, Floats y, Floats y2) const {
        Best& best = all_best[part * count + row];
        if (!asked.hide(row, column, y, y2)) return;
        const Floats high = largest(y, y2);
        if (sums) sums->add(row, best, column, high, y, &y2);
        // Nearly all words are neither special nor among the best so far.
        if (asked.plain(column) && !any_above(high, best.bound)) return;
        look(best, column, STRIP, y);
        look(best, column + STRIP, STRIP, y2);
    }

    void some(int part, int64_t row, int64_t column, int some, Floats y) const {
        Best& best = all_best[part * count + row];
        asked.hide(row, column, some, y);
        if (sums) sums->add(row, best, column, y, y, nullptr);
        look(best, column, some, y);
    }

    void look(Best& best, int64_t column, int some, Floats y) const {
        const Floats given = y;
        if (const int end = asked.counted(column, y); end >= 0 && end < some) best.end = given[end];
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
void best_of(const T* x, int64_t count, const Weights& w, const Asked& asked, Found found, int threads) {
    const int n = asked.n;
    // Of several words that no row has, none is the end: a row has that once.
    const int32_t none = int32_t(n > 1 && asked.first == asked.end ? asked.end + 1 : asked.first);
    const int64_t line = (n + STRIP - 1) / STRIP * STRIP;
    std::vector<float> value(size_t(threads * count * line), NOTHING);
    std::vector<int32_t> word(value.size(), none);
    std::vector<Best> all_best(threads * count);
    for (int64_t i = 0; i < threads * count; i++)
        all_best[i].value = &value[i * line], all_best[i].word = &word[i * line], all_best[i].n = n;
    std::unique_ptr<Exponentials> sums(asked.sums ? new Exponentials(count, w.out) : nullptr);
    Search search{all_best, count, asked, sums.get()};
    product(laid_out<Item>(x, w.width, count, w.width), w, threads, search, sums ? SPAN / (2 * STRIP) : 1);
    for (int64_t row = 0; row < count; row++) {
        Best& best = all_best[row];
        if (sums) sums->keep(row, best);
        for (int part = 1; part < threads; part++) {  // later threads have later words
            Best& other = all_best[part * count + row];
            if (sums) sums->keep(row, other);
            for (int i = 0; i < n && other.value[i] > best.bound; i++) best.add(other.value[i], other.word[i]);
            best.end = std::max(best.end, other.end);
        }
        std::copy_n(best.value, n, found.values + row * n);
        std::copy_n(best.word, n, found.words + row * n);
        found.ends[row] = best.end;
        found.logs[row] = sums ? sums->log_of(row) : NOTHING;
    }
}

}  // namespace
