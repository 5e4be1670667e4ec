// The best word of a row by few exact products.
//
// Let x' and w' be what int8 holds of a row and of a word, x = x' + d and w = w' + e. Then
//   |x w - x' w'| = |d w' + x e| <= |d| |w'| + |x| |e|,
// so that products in int8 leave a few words of which one must have the largest exact product: these are multiplied exactly, in the
// order of sums that all products have. What is found is the same to the bit.

#pragma once

#include "best.h"

namespace {

struct Screen {
    const char* data;  // the words in int8
    const float* scale;
    const int32_t* sums;
    const float* terms;  // of errors, three lines of a number for each word, for whole strips: |w'|, |e|, of the bias
    int64_t line;
    const void* words;  // [out][width], as they are multiplied exactly
    int64_t* tally;     // rows that were looked at, of these those that were multiplied with all words, words left to the others
    float largest[3];   // of each line of terms
};

constexpr size_t MOST = 512;      // words that may be left of a row, as far as it has been looked at; else it is multiplied with all
constexpr int64_t TOGETHER = 32;  // rows that are multiplied exactly together, each with the words that are left of any of them
constexpr int64_t ALONE = 2048;   // words that may be left of these; else they are multiplied with all

struct Candidate {
    float highest;  // what its logit is at most
    int32_t word;
};

// Of a row: words that may be the best, and a logit that the best has at least.
struct Kept {
    float least = NOTHING;
    bool many = false;
    std::vector<Candidate> words;

    // What the highest logit of a word that may be the best is above: sums and differences of a few numbers are rounded.
    float bound() const { return least - (std::fabs(least) * 1e-6f + 1e-30f); }

    void add(Candidate one) {
        if (many) return;
        words.push_back(one);
        if (words.size() < 2 * MOST) return;
        drop();
        many = words.size() > MOST;
    }

    // Words that cannot be the best.
    void drop() {
        const float low = bound();
        auto none = [low](Candidate one) { return !(one.highest > low); };
        words.erase(std::remove_if(words.begin(), words.end(), none), words.end());
    }
};

// Of a row: |d|, |x|, and the largest error of any word; not finite where some number of the row is not.
struct Distance {
    float lost, size, error;
};

struct Screening {
    std::vector<Kept>& all_kept;
    const std::vector<Distance>& distances;
    const Screen& screen;
    const Asked& asked;

    void pair(int part, int64_t row, int64_t column, Floats y, Floats y2) const {
        Kept& kept = all_kept[part * distances.size() + row];
        if (!asked.hide(row, column, y, y2)) return;
        if (asked.plain(column) && !any_above(largest(y, y2), kept.bound() - distances[row].error)) return;
        look(kept, distances[row], column, y);
        look(kept, distances[row], column + STRIP, y2);
    }

    void some(int part, int64_t row, int64_t column, int some, Floats y) const {
        asked.hide(row, column, some, y);
        look(all_kept[part * distances.size() + row], distances[row], column, y);
    }

    void look(Kept& kept, const Distance& row, int64_t column, Floats y) const {
        const float* terms = screen.terms + column;
        Floats error = load(terms) * row.lost + load(terms + screen.line) * row.size + load(terms + 2 * screen.line);
        if (const int end = asked.counted(column, y); end >= 0) error[end] += std::fabs(asked.reward) * 1e-6f;
        const Floats least = y - error, highest = y + error;
        if (any_above(least, kept.least)) kept.least = max_of(least);
        for (uint32_t left = above(highest, kept.bound()); left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            kept.add({highest[i], int32_t(column + i)});
        }
    }
};

// How far rows are from what int8 holds of them. Squares are of numbers in steps of the row: none is too small or too large.
template <class Item, class T>
std::vector<Distance> distances_of(const T* x, const Rows<int8_t>& rows, const Screen& screen, int64_t width) {
    typedef int8_t Bytes __attribute__((vector_size(STRIP)));
    std::vector<Distance> distances(rows.count);
    for (int64_t row = 0; row < rows.count; row++) {
        const float step = rows.step[row], steps = 1.0f / step;
        Floats lost{}, size{};
        for (int64_t k = 0; k < width; k += STRIP) {
            Bytes levels;
            std::memcpy(&levels, line_of(rows, row, k / TILE_BYTES) + k % TILE_BYTES, sizeof levels);
            if (MOVED) levels ^= -128;
            const Floats exact = as<Item>(load_some(x + row * width + k, int(std::min<int64_t>(STRIP, width - k))));
            const Floats d = (exact - __builtin_convertvector(levels, Floats) * step) * steps, all = exact * steps;
            lost += d * d, size += all * all;
        }
        Distance& here = distances[row];  // 1.0001: sums are rounded
        here.lost = 1.0001f * step * std::sqrt(sum_of(lost)), here.size = 1.0001f * step * std::sqrt(sum_of(size));
        here.error = 1.0001f * (here.lost * screen.largest[0] + here.size * screen.largest[1] + screen.largest[2]);
    }
    return distances;
}

// The words that are left of any of some rows, and the first and the end; none where they are too many, or a row has no bounds.
std::vector<int64_t> left_of(int64_t first_row, int64_t rows, std::vector<Kept>& all_kept, const std::vector<Distance>& distances,
                             const Asked& asked, int64_t* tally) {
    const int64_t count = int64_t(distances.size());
    std::vector<int64_t> left{asked.first, asked.end};
    int64_t kept_words = 0;
    for (int64_t row = first_row; row < first_row + rows; row++) {
        float least = NOTHING;
        for (size_t at = row; at < all_kept.size(); at += count) least = std::max(least, all_kept[at].least);
        if (!(distances[row].error < -NOTHING && least < -NOTHING)) return {};
        for (size_t at = row; at < all_kept.size(); at += count) {
            Kept& kept = all_kept[at];
            if (kept.many) return {};
            kept.least = least, kept.drop();
            kept_words += int64_t(kept.words.size());
            for (const Candidate& one : kept.words) left.push_back(one.word);
        }
    }
    std::sort(left.begin(), left.end());
    left.erase(std::unique(left.begin(), left.end()), left.end());
    if (int64_t(left.size()) > std::min(ALONE, asked.out / 4)) return {};
    __atomic_fetch_add(&tally[2], kept_words, __ATOMIC_RELAXED);
    return left;
}

// The exact products of some rows with some words, in their order, and the best of them.
template <class Item, class T>
void best_among(const std::vector<int64_t>& among, const T* x, int64_t first_row, int64_t rows, const Weights& w,
                const Screen& screen, const Asked& asked, Found found) {
    const int64_t count = int64_t(among.size()), strips = (count + STRIP - 1) / STRIP, next = w.next<Item>();
    static thread_local std::vector<char> space;
    if (space.size() < size_t(strips * next + 64)) space.resize(size_t(strips * next + 64));
    char* packed = (char*)((uintptr_t(space.data()) + 63) & ~uintptr_t(63));
    for (int64_t at = 0; at < count; at += STRIP) {
        const Item* lines[STRIP];
        const int some = int(std::min<int64_t>(STRIP, count - at));
        for (int i = 0; i < some; i++) lines[i] = (const Item*)screen.words + among[at + i] * w.width;
        pack_strip(lines, some, w.width, packed + at / STRIP * next);
    }
    std::vector<float> bias(w.bias ? size_t(strips * STRIP) : 0);
    std::vector<uint8_t> forbidden(asked.forbidden ? size_t(rows * count) : 0);
    for (int64_t i = 0; i < count; i++) {
        if (w.bias) bias[i] = w.bias[among[i]];
        for (int64_t row = 0; asked.forbidden && row < rows; row++)
            forbidden[row * count + i] = asked.forbidden[(first_row + row) / asked.per * asked.out + among[i]];
    }
    auto place = [&](int64_t word) { return std::lower_bound(among.begin(), among.end(), word) - among.begin(); };
    const Weights here{packed, nullptr, nullptr, w.bias ? bias.data() : nullptr, count, w.width};
    Asked same = asked;
    same.first = place(asked.first), same.end = place(asked.end), same.per = 1, same.out = count;
    if (asked.forbidden) same.forbidden = forbidden.data();
    best_of<Item>(x, rows, here, same, found, 1);
    for (int64_t row = 0; row < rows; row++) found.words[row] = among[found.words[row]];
}

// The best word of every row, without sums; the first and the end are words.
template <class Item, class T>
void screened(const T* x, int64_t count, const Weights& w, const Screen& screen, const Asked& asked, Found found, int threads) {
    const Rows<int8_t> rows = quantised(x, w.width, count, w.width);
    const std::vector<Distance> distances = distances_of<Item>(x, rows, screen, w.width);
    std::vector<Kept> all_kept(threads * count);
    Screening screening{all_kept, distances, screen, asked};
    product(rows, {screen.data, screen.scale, screen.sums, w.bias, w.out, w.width}, threads, screening);
    const int64_t blocks = (count + TOGETHER - 1) / TOGETHER;
    std::vector<char> whole(blocks);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t row = block * TOGETHER, some = std::min(TOGETHER, count - row);
        const std::vector<int64_t> left = left_of(row, some, all_kept, distances, asked, screen.tally);
        const Found here{found.values + row, found.words + row, found.ends + row, found.logs + row};
        if (left.empty()) whole[block] = 1;
        else best_among<Item>(left, x + row * w.width, row, some, w, screen, asked, here);
    }
    // Rows between two that need all words have them, too, and the same result: weights are read once.
    const int64_t from = std::find(whole.begin(), whole.end(), 1) - whole.begin();
    const int64_t to = whole.rend() - std::find(whole.rbegin(), whole.rend(), 1);
    __atomic_fetch_add(&screen.tally[0], count, __ATOMIC_RELAXED);
    if (from >= to) return;
    const int64_t row = from * TOGETHER / asked.per * asked.per, end = std::min(count, to * TOGETHER);
    Asked these = asked;
    if (asked.forbidden) these.forbidden += row / asked.per * asked.out;
    const Found here{found.values + row, found.words + row, found.ends + row, found.logs + row};
    best_of<Item>(x + row * w.width, end - row, w, these, here, threads);
    __atomic_fetch_add(&screen.tally[1], end - row, __ATOMIC_RELAXED);
}

}  // namespace
