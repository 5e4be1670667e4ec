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
    const float* errors;  // three lines of one number a word, each a multiple of the widest strip long: |w'|, |e| and what the bias adds
    int64_t line;
    const void* words;  // [out][width], as they are multiplied exactly
    float largest[3];   // of each line of errors
};

constexpr int64_t MOST = 1024;   // words of a row that may be kept: of more, all are multiplied
constexpr int64_t TOGETHER = 32;  // rows that are multiplied exactly together, each with the words that any of them kept

struct Candidate {
    float most;  // what its logit is at most
    int32_t word;
};

// Of a row: words that may be the best, and a logit that the best has at least.
struct Kept {
    float least = NOTHING;
    bool many = false;
    std::vector<Candidate> words;

    // What a word that may be the best is above. Sums and differences of a few numbers are rounded.
    float bound() const { return least - (std::fabs(least) * 1e-6f + 1e-30f); }

    void add(Candidate one) {
        if (many) return;
        words.push_back(one);
        if (words.size() < MOST) return;
        clear();
        many = words.size() > MOST / 2;
    }

    void clear() {
        const float low = bound();
        words.erase(std::remove_if(words.begin(), words.end(), [low](Candidate one) { return !(one.most > low); }), words.end());
    }
};

// A row: |d|, |x|, and the largest error of any word.
struct Distance {
    float lost, size, most;
};

struct Screening {
    std::vector<Kept>& all_kept;
    const std::vector<Distance>& distances;
    const Screen& screen;
    const Asked& asked;

    void pair(int part, int64_t row, int64_t column, Floats y, Floats y2) const {
        Kept& kept = all_kept[part * distances.size() + row];
        if (!asked.hide(row, column, y, y2)) return;
        if (column > std::max(asked.first, asked.end) && !any_above(largest(y, y2), kept.bound() - distances[row].most)) return;
        look(kept, distances[row], column, y);
        look(kept, distances[row], column + STRIP, y2);
    }

    void some(int part, int64_t row, int64_t column, int some, Floats y) const {
        asked.hide(row, column, some, y);
        look(all_kept[part * distances.size() + row], distances[row], column, y);
    }

    void look(Kept& kept, const Distance& row, int64_t column, Floats y) const {
        const float* errors = screen.errors + column;
        Floats error = load(errors) * row.lost + load(errors + screen.line) * row.size + load(errors + 2 * screen.line);
        const int64_t end = asked.end - column;
        if (end >= 0 && end < STRIP) {
            y[end] -= asked.reward;
            error[end] += std::fabs(asked.reward) * 1e-6f;
        }
        for (int i = 0; i < STRIP && column + i < asked.first; i++) y[i] = NOTHING;
        const Floats least = y - error, most = y + error;
        if (any_above(least, kept.least)) kept.least = max_of(least);
        for (uint32_t left = above(most, kept.bound()); left; left &= left - 1) {
            const int i = __builtin_ctz(left);
            kept.add({most[i], int32_t(column + i)});
        }
    }
};

// How far the rows are from what int8 holds of them; false where some number is none.
template <class Item, class T>
bool measure(const T* x, const Rows<int8_t>& rows, const Screen& screen, int64_t width, std::vector<Distance>& distances) {
    typedef int8_t Bytes __attribute__((vector_size(STRIP)));
    for (int64_t row = 0; row < rows.count; row++) {
        Floats lost{}, size{};
        for (int64_t k = 0; k < width; k += STRIP) {
            Bytes levels;
            std::memcpy(&levels, line_of(rows, row, k / TILE_BYTES) + k % TILE_BYTES, sizeof levels);
            if (MOVED) levels ^= -128;
            const Floats exact = as<Item>(load_some(x + row * width + k, int(std::min<int64_t>(STRIP, width - k))));
            const Floats d = exact - __builtin_convertvector(levels, Floats) * rows.step[row];
            lost += d * d, size += exact * exact;
        }
        // As sums in float32 come out at most.
        Distance& here = distances[row];
        here.lost = 1.0001f * std::sqrt(sum_of(lost)), here.size = 1.0001f * std::sqrt(sum_of(size));
        here.most = 1.0001f * (here.lost * screen.largest[0] + here.size * screen.largest[1] + screen.largest[2]);
        if (!(here.most < -NOTHING)) return false;
    }
    return true;
}

// The exact products of some rows with some words, in their order, and the best of them.
template <class Item, class T>
void best_among(const std::vector<int64_t>& among, const T* x, int64_t first_row, int64_t rows, const Weights& w, const Screen& screen,
                const Asked& asked, Found found) {
    const int64_t count = int64_t(among.size()), strips = (count + STRIP - 1) / STRIP, next = w.next<Item>();
    static thread_local std::vector<char> space;
    if (space.size() < size_t(strips * next + 64)) space.resize(size_t(strips * next + 64));
    char* packed = (char*)((uintptr_t(space.data()) + 63) & ~uintptr_t(63));
    std::vector<float> bias(w.bias ? size_t(strips * STRIP) : 0);
    std::vector<uint8_t> forbidden(asked.forbidden ? size_t(rows * count) : 0);
    for (int64_t at = 0; at < count; at += STRIP) {
        const Item* lines[STRIP];
        const int some = int(std::min<int64_t>(STRIP, count - at));
        for (int i = 0; i < some; i++) lines[i] = (const Item*)screen.words + among[at + i] * w.width;
        pack_strip(lines, some, w.width, packed + at / STRIP * next);
    }
    for (int64_t i = 0; i < count; i++) {
        if (w.bias) bias[i] = w.bias[among[i]];
        for (int64_t row = 0; asked.forbidden && row < rows; row++)
            forbidden[row * count + i] = asked.forbidden[(first_row + row) / asked.per * asked.out + among[i]];
    }
    auto place = [&](int64_t word) { return std::lower_bound(among.begin(), among.end(), word) - among.begin(); };
    const Weights here{packed, nullptr, nullptr, w.bias ? bias.data() : nullptr, count, w.width};
    const Asked same{1, false, place(asked.first), place(asked.end), asked.reward, asked.forbidden ? forbidden.data() : nullptr, 1, count};
    found.values += first_row, found.words += first_row, found.ends += first_row, found.logs += first_row;
    best_of<Item>(x + first_row * w.width, rows, here, same, found, 1);
    for (int64_t row = 0; row < rows; row++) found.words[row] = among[found.words[row]];
}

// False where too many words may be the best.
template <class Item, class T>
bool screened(const T* x, int64_t count, const Weights& w, const Screen& screen, const Asked& asked, Found found, int threads) {
    const Rows<int8_t> rows = quantised(x, w.width, count, w.width);
    std::vector<Distance> distances(count);
    if (!measure<Item>(x, rows, screen, w.width, distances)) return false;
    std::vector<Kept> all_kept(threads * count);
    Screening screening{all_kept, distances, screen, asked};
    product(rows, {screen.data, screen.scale, screen.sums, w.bias, w.out, w.width}, threads, screening);
    const int64_t blocks = (count + TOGETHER - 1) / TOGETHER;
    std::vector<std::vector<int64_t>> among(blocks, {asked.first, asked.end});
    for (int64_t row = 0; row < count; row++) {
        float least = NOTHING;
        for (int part = 0; part < threads; part++) least = std::max(least, all_kept[part * count + row].least);
        for (int part = 0; part < threads; part++) {
            Kept& kept = all_kept[part * count + row];
            if (kept.many) return false;
            kept.least = least, kept.clear();
            for (const Candidate& one : kept.words) among[row / TOGETHER].push_back(one.word);
        }
    }
    for (std::vector<int64_t>& each : among) {
        std::sort(each.begin(), each.end());
        each.erase(std::unique(each.begin(), each.end()), each.end());
        if (int64_t(each.size()) > w.out / 4) return false;
    }
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t block = 0; block < blocks; block++) {
        const int64_t row = block * TOGETHER;
        best_among<Item>(among[block], x, row, std::min(TOGETHER, count - row), w, screen, asked, found);
    }
    return true;
}

}  // namespace
