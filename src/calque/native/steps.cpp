// Several steps of a search as one call: a program, the best words behind it, and the hypotheses that go on with them, until one ends.

#include <algorithm>
#include <cstring>
#include <vector>

#include "program.h"

extern "C" {
int calque_run(const void* operations, int64_t count, const Frame* frame, int type);
void calque_best(const void* x, int type, int64_t rows, const char* packed, int item, const float* scale, const int32_t* sums,
                 const float* bias, int64_t out, int64_t width, int n, int64_t first, int64_t end, float reward, int with_sums,
                 const uint8_t* forbidden, int64_t per, float* values, int64_t* words, float* ends, float* logs, int threads);
int calque_continue(const float* values, const int64_t* words, const float* live, const float* total, int64_t sentences, int64_t slots,
                    int64_t n, int64_t end, float* logp, int64_t* parents, int64_t* chosen);
void calque_reorder(const int16_t* origin, const int64_t* rows, int64_t count, int64_t slots, int64_t capacity, int64_t past, int16_t* to);
}

namespace {

struct Steps {
    const void* operations;
    int64_t count, type, most;
    Frame* frame;             // of the first step
    const Bound* bound[3];    // of the first step, and by turns of those behind it
    int64_t tensors, made;    // of a state: new ones stand behind all of them
    const int64_t* made_rows;  // bytes of their rows
    const void* z;            // what the output layer reads
    const char* weight;
    const float* scale;
    const int32_t* sums;
    const float* bias;
    int64_t item, out, width;
    int64_t n, first, end, total;
    float reward, unused;
    const uint8_t* forbidden;  // [sentences][out]
    const int64_t* ids;        // of the words that may be chosen; null: all
    const uint8_t* done;       // greedy search: rows whose words no longer matter
    float* live;               // beam search: the log-probabilities of live hypotheses, which change
    int16_t* origin[2];        // by turns
    int64_t moves;             // how often hypotheses moved
    float* values;             // of every step
    int64_t* words;
    float *ends, *totals;
};

// Whether a sentence that is not done has chosen the end symbol.
bool ended(const Steps& s, const int64_t* words) {
    for (int64_t row = 0; row < s.frame->rows; row++)
        if (words[row] == s.end && !s.done[row]) return true;
    return false;
}

// Rows of new tensors of the state take the places of those that they continue.
void move_rows(const Steps& s, const Bound* bound, const std::vector<int64_t>& from) {
    static thread_local std::vector<char> before;
    for (int64_t i = 0; i < s.made; i++) {
        char* data = (char*)bound[s.tensors + i].data;
        const int64_t bytes = s.made_rows[i], rows = int64_t(from.size());
        before.assign(data, data + rows * bytes);
        for (int64_t row = 0; row < rows; row++)
            if (from[row] != row) std::memcpy(data + row * bytes, &before[from[row] * bytes], size_t(bytes));
    }
}

// The next words of a beam, in `next`, and its hypotheses; false where one of them ends.
bool goes_on(Steps& s, const Bound* bound, const float* values, const int64_t* words, const float* totals, std::vector<int64_t>& next) {
    const int64_t rows = s.frame->rows, slots = s.frame->beams, sentences = rows / slots;
    std::vector<float> logp(sentences * s.n);
    std::vector<int64_t> parents(sentences * s.n), chosen(sentences * s.n), from(rows);
    const int kept = calque_continue(values, words, s.live, s.total ? totals : nullptr, sentences, slots, s.n, s.end, logp.data(), parents.data(), chosen.data());
    if (kept & 1) return false;
    for (int64_t row = 0; row < rows; row++) {
        const int64_t sentence = row / slots, at = sentence * s.n + row % slots;
        s.live[row] = logp[at], next[row] = chosen[at], from[row] = sentence * slots + parents[at];
    }
    if (!(kept & 2)) return true;
    int16_t* to = s.origin[s.moves++ % 2];
    calque_reorder(s.frame->origin, from.data(), rows, slots, s.frame->origin_next, s.frame->visible, to);
    s.frame->origin = to;
    move_rows(s, bound, from);
    return true;
}

}  // namespace

// How many steps were made, at least one and at most `most`: none behind one that chose an end symbol. -1 where the number of a word
// is not of its vocabulary.
extern "C" int64_t calque_steps(Steps* given) {
    Steps& s = *given;
    Frame& f = *s.frame;
    const int64_t rows = f.rows;
    std::vector<int64_t> next(rows);
    for (int64_t i = 0;; f.visible++) {
        const Bound* bound = s.bound[i ? 2 - i % 2 : 0];
        f.bound = bound;
        if (calque_run(s.operations, s.count, &f, int(s.type))) return -1;
        float *values = s.values + i * rows * s.n, *totals = s.totals + i * rows;
        int64_t* words = s.words + i * rows * s.n;
        calque_best(s.z, int(s.type), rows, s.weight, int(s.item), s.scale, s.sums, s.bias, s.out, s.width, int(s.n), s.first, s.end,
                    s.reward, int(s.total), s.forbidden, f.beams, values, words, s.ends + i * rows, totals, int(f.threads));
        if (++i == s.most) return i;
        if (s.live ? !goes_on(s, bound, values, words, totals, next) : ended(s, words)) return i;
        if (!s.live) std::copy_n(words, rows, next.data());
        if (s.ids)
            for (int64_t& word : next) word = s.ids[word];
        f.words = next.data();
    }
}
