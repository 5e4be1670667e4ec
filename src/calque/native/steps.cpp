// Several steps of a search as one call: a program, the best words behind it, and the hypotheses that go on with them, until enough
// sentences may be done.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "program.h"

extern "C" {
int calque_run(const void* operations, int64_t count, const Frame* frame, int type);
void calque_best(const void* x, int type, int64_t rows, const char* packed, int item, const float* scale, const int32_t* sums,
                 const float* bias, int64_t out, int64_t width, int n, int64_t first, int64_t end, float reward, int with_sums,
                 const uint8_t* forbidden, int64_t per, const void* screen, float* values, int64_t* words, float* ends, float* logs,
                 int threads);
int calque_continue(const float* values, const int64_t* words, const float* live, const float* total, int64_t sentences, int64_t slots,
                    int64_t n, int64_t end, float* logp, int64_t* parents, int64_t* chosen);
int calque_reorder(const int16_t* origin, const int64_t* rows, int64_t count, int64_t held, int64_t slots, int64_t capacity, int64_t past,
                   int16_t* to);
}

namespace {

struct Steps {
    const void* operations;
    int64_t count, type, most;
    Frame* frame;             // of the first step
    const Bound* bound[3];    // of the first step, and by turns of those behind it
    int64_t tensors, made;    // of a state: new ones stand behind all of them
    const int64_t* moved_rows;  // bytes of a row of those that a step writes over the ones before; 0: it is read where its parent was
    const void* z;            // what the output layer reads
    const char* weight;
    const float* scale;
    const int32_t* sums;
    const float* bias;
    const void* screen;  // of these weights; null: none
    int64_t item, out, width;
    int64_t n, first, end, total;
    float reward, unused;
    const uint8_t* forbidden;  // [sentences][out]
    const int64_t* ids;        // of the words that may be chosen; null: all
    int64_t* needed;           // hypotheses that must end before a sentence can be done; they count down
    int64_t enough;            // sentences that may be done, behind which no step is made
    float* live;               // beam search: the log-probabilities of live hypotheses, which change
    int16_t* origin[2];        // by turns
    int64_t moves;             // how often hypotheses moved
    float* values;             // of every step
    int64_t* words;
    float *ends, *totals;
};

// Whether so many sentences may be done that no further step is made.
bool enough(const Steps& s, int64_t sentences) {
    return std::count_if(s.needed, s.needed + sentences, [](int64_t needed) { return needed <= 0; }) >= s.enough;
}

// The next words of greedy search, in `next`; false where enough sentences are done.
bool goes_on(Steps& s, const int64_t* words, std::vector<int64_t>& next) {
    for (int64_t row = 0; row < s.frame->rows; row++) {
        next[row] = words[row];
        if (words[row] == s.end) s.needed[row]--;
    }
    return !enough(s, s.frame->rows);
}

// Rows of tensors that are written over take the places of those that they continue.
void move_rows(const Steps& s, const Bound* bound, const std::vector<int64_t>& from) {
    static thread_local std::vector<char> before;
    for (int64_t i = 0; i < s.made; i++) {
        char* data = (char*)bound[s.tensors + i].data;
        const int64_t bytes = s.moved_rows[i], rows = int64_t(from.size());
        if (!bytes) continue;
        before.assign(data, data + rows * bytes);
        for (int64_t row = 0; row < rows; row++)
            if (from[row] != row) std::memcpy(data + row * bytes, &before[from[row] * bytes], size_t(bytes));
    }
}

// Of the best candidates of a sentence, those that go on: their words in `next`, what they extend in `from`. `moved`: not each itself.
void go_on(Steps& s, int64_t sentence, const float* logp, const int64_t* parents, const int64_t* chosen, int64_t* next, int64_t* from, bool& moved) {
    const int64_t slots = s.frame->beams;
    for (int64_t i = 0, slot = 0; i < s.n && slot < slots; i++) {
        if (chosen[i] == s.end) {
            if (i < slots && logp[i] > -INFINITY) s.needed[sentence]--;
            continue;
        }
        s.live[sentence * slots + slot] = logp[i], next[slot] = chosen[i], from[slot] = sentence * slots + parents[i];
        moved |= parents[i] != slot++;
    }
}

// The next words of a beam, in `next`, and the rows that they continue, in `from`; false where enough sentences may be done.
bool goes_on(Steps& s, const Bound* bound, const float* values, const int64_t* words, const float* totals, std::vector<int64_t>& next,
             std::vector<int64_t>& from) {
    const int64_t rows = s.frame->rows, slots = s.frame->beams, sentences = rows / slots;
    bool moved = false;
    std::vector<float> logp(sentences * s.n);
    std::vector<int64_t> parents(sentences * s.n), chosen(sentences * s.n);
    calque_continue(values, words, s.live, s.total ? totals : nullptr, sentences, slots, s.n, s.end, logp.data(), parents.data(), chosen.data());
    for (int64_t i = 0; i < sentences; i++)
        go_on(s, i, &logp[i * s.n], &parents[i * s.n], &chosen[i * s.n], &next[i * slots], &from[i * slots], moved);
    if (enough(s, sentences)) return false;
    s.frame->parents = moved ? from.data() : nullptr;
    if (!moved) return true;
    int16_t* to = s.origin[s.moves++ % 2];
    calque_reorder(s.frame->origin, from.data(), rows, rows, slots, s.frame->origin_next, s.frame->visible, to);
    s.frame->origin = to;
    move_rows(s, bound, from);
    return true;
}

}  // namespace

// How many steps were made, at least one and at most `most`: none behind one after which enough sentences may be done. -1 where the
// number of a word is not of its vocabulary.
extern "C" int64_t calque_steps(Steps* given) {
    Steps& s = *given;
    Frame& f = *s.frame;
    const int64_t rows = f.rows;
    std::vector<int64_t> next(rows), from(rows);
    for (int64_t i = 0;; f.visible++) {
        const Bound* bound = s.bound[i ? 2 - i % 2 : 0];
        f.bound = bound;
        if (calque_run(s.operations, s.count, &f, int(s.type))) return -1;
        float *values = s.values + i * rows * s.n, *totals = s.totals + i * rows;
        int64_t* words = s.words + i * rows * s.n;
        calque_best(s.z, int(s.type), rows, s.weight, int(s.item), s.scale, s.sums, s.bias, s.out, s.width, int(s.n), s.first, s.end,
                    s.reward, int(s.total), s.forbidden, f.beams, s.screen, values, words, s.ends + i * rows, totals, int(f.threads));
        if (++i == s.most) return i;
        if (!(s.live ? goes_on(s, bound, values, words, totals, next, from) : goes_on(s, words, next))) return i;
        if (s.ids)
            for (int64_t& word : next) word = s.ids[word];
        f.words = next.data();
    }
}
