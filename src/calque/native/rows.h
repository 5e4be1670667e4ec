// What is done row by row: attention of single queries, layer norm.

#pragma once

#include <vector>

#include "vectors.h"

namespace {

// Attention of single queries to keys and values [sentence][head][slot][width].

// The sums of four vectors, added up pairwise.
inline void four_sums(const Floats* x, float* sums) {
    const Floats a = without<1>(x[0], x[1]) + with<1>(x[0], x[1]), b = without<1>(x[2], x[3]) + with<1>(x[2], x[3]);
    Floats c = without<2>(a, b) + with<2>(a, b);
    if (STRIP > 8) c += mixed(c, c, LANES ^ 8);
    if (STRIP > 4) c += mixed(c, c, LANES ^ 4);
    std::memcpy(sums, &c, 16);
}

// q . k of four keys; `width` numbers, of which q has zeros behind it up to whole vectors.
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

// The same in bfloat16, two neighbours at a time; `width` is a multiple of 32.
#ifdef __AVX512BF16__
constexpr bool PAIRS = true;
inline void four_dots_of_pairs(const Half* q, const Half* const* k, int64_t width, float* dots) {
    __m512 sums[4]{};
    for (int64_t d = 0; d < width; d += 2 * STRIP) {
        const __m512bh x = (__m512bh)_mm512_loadu_si512(q + d);
        for (int i = 0; i < 4; i++) sums[i] = _mm512_dpbf16_ps(sums[i], x, (__m512bh)_mm512_loadu_si512(k[i] + d));
    }
    four_sums((const Floats*)sums, dots);
}

// Adds up w v over pairs of positions for 32 MANY numbers; w are bfloat16 already, with a zero behind an odd number of them.
template <int MANY, class At>
inline void weighted_pairs(const float* w, int64_t count, const At& at, float* out) {
    __m512 low[MANY]{}, high[MANY]{};
    for (int64_t p = 0; p < count; p += 2) {
        uint32_t first, second;
        std::memcpy(&first, w + p, 4), std::memcpy(&second, w + p + 1, 4);
        const __m512bh both = (__m512bh)_mm512_set1_epi32(int32_t(first >> 16 | (second & 0xffff0000)));
        const Half *one = at(p), *two = at(std::min(p + 1, count - 1));
        for (int i = 0; i < MANY; i++) {
            const __m512i a = _mm512_loadu_si512(one + i * 32), b = _mm512_loadu_si512(two + i * 32);
            low[i] = _mm512_dpbf16_ps(low[i], (__m512bh)_mm512_unpacklo_epi16(a, b), both);
            high[i] = _mm512_dpbf16_ps(high[i], (__m512bh)_mm512_unpackhi_epi16(a, b), both);
        }
    }
    const __m512i front = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i back = _mm512_add_epi32(front, _mm512_set1_epi32(8));
    for (int i = 0; i < MANY; i++) {
        _mm512_storeu_ps(out + i * 32, _mm512_permutex2var_ps(low[i], front, high[i]));
        _mm512_storeu_ps(out + i * 32 + STRIP, _mm512_permutex2var_ps(low[i], back, high[i]));
    }
}
#elif !defined(__AVX512F__)
constexpr bool PAIRS = true;
// Of twice as many numbers as a vector has those at even places and those at odd ones.
struct Turns {
    Floats even, odd;
    explicit Turns(const Half* from) {
        Words x;
        std::memcpy(&x, from, sizeof x);
        even = (Floats)(x << 16), odd = (Floats)(x & 0xffff0000);
    }
};

inline void four_dots_of_pairs(const Half* q, const Half* const* k, int64_t width, float* dots) {
    Floats sums[4]{};
    for (int64_t d = 0; d < width; d += 2 * STRIP) {
        const Turns x(q + d);
        for (int i = 0; i < 4; i++) {
            const Turns y(k[i] + d);
            sums[i] = x.odd * y.odd + (x.even * y.even + sums[i]);
        }
    }
    four_sums(sums, dots);
}

// Adds up w v over positions for 32 MANY numbers.
template <int MANY, class At>
inline void weighted_pairs(const float* w, int64_t count, const At& at, float* out) {
    constexpr int TWICE = 2 * STRIP, VECTORS = 32 * MANY / TWICE;
    Floats even[VECTORS]{}, odd[VECTORS]{};
    for (int64_t p = 0; p < count; p++) {
        const Half* from = at(p);
        for (int i = 0; i < VECTORS; i++) {
            const Turns x(from + i * TWICE);
            even[i] += x.even * w[p], odd[i] += x.odd * w[p];
        }
    }
    constexpr Ints low = LANES / 2 + (LANES & 1) * STRIP, high = low + STRIP / 2;
    for (int i = 0; i < VECTORS; i++)
        store_pair(out + i * TWICE, mixed(even[i], odd[i], low), mixed(even[i], odd[i], high));
}
#else
constexpr bool PAIRS = false;
inline void four_dots_of_pairs(const Half*, const Half* const*, int64_t, float*) {}
template <int MANY, class At>
inline void weighted_pairs(const float*, int64_t, const At&, float*) {}
#endif

// Adds up w v over positions; `width` is any.
template <class T, class At>
inline void weighted(const float* w, int64_t count, const At& at, int64_t width, float* out) {
    constexpr int MANY = 64 / STRIP;
    int64_t d = 0;
    for (; d + MANY * STRIP <= width; d += MANY * STRIP) {
        Floats c[MANY]{};
        for (int64_t p = 0; p < count; p++) {
            const T* from = at(p) + d;
            for (int i = 0; i < MANY; i++) c[i] += load(from + i * STRIP) * w[p];
        }
        for (int i = 0; i < MANY; i++) store(out + d + i * STRIP, c[i]);
    }
    for (; d < width; d += STRIP) {
        Floats c{};
        for (int64_t p = 0; p < count; p++) c += load_some(at(p) + d, int(width - d)) * w[p];
        store(out + d, c);
    }
}

// values [longest][heads * width], weights [heads][places][longest]: what the heads see at each place of a sentence of `length` positions,
// in `out` [places][heads * width]. Weights of 0 in front and behind are left out; the sum is the same however long others are.
template <class T>
void weigh(const float* weights, const T* values, int64_t length, int64_t heads, int64_t places, int64_t longest, int64_t width, T* out) {
    static thread_local std::vector<float> sums;
    sums.resize(width + STRIP);
    const int64_t next = heads * width;
    for (int64_t place = 0; place < places; place++)
        for (int64_t h = 0; h < heads; h++) {
            const float* w = weights + (h * places + place) * longest;
            int64_t first = 0, end = length;
            while (first < end && w[first] == 0) first++;
            while (end > first && w[end - 1] == 0) end--;
            auto at = [&](int64_t p) { return values + (first + p) * next + h * width; };
            weighted<T>(w + first, end - first, at, width, sums.data());
            T* to = out + place * next + h * width;
            for (int64_t d = 0; d < width; d += STRIP) store_some(to + d, load(sums.data() + d), int(std::min<int64_t>(STRIP, width - d)));
        }
}

// q [rows][heads * width] with `q_next` numbers from row to row; `per` rows of a sentence are queries of its slots.
struct Attention {
    int64_t rows, per, heads, width, value_width, visible, q_next;
    int64_t key_sentence, key_head, value_sentence, value_head;  // numbers from one to the next
    int64_t key_next, value_next;                                // from slot to slot
    int64_t beams, origin_next;  // origin [sentence][beams][origin_next]: whose slot holds each position
    int64_t new_key_next, new_value_next, out_next;  // numbers from row to row
    int64_t group;                                   // heads of queries that share one of keys and values
    float scale;
    const int64_t* places;  // where the keys and values of each sentence are; null: in order
};

inline int64_t place_among(const int64_t* places, int64_t sentence) { return places ? places[sentence] : sentence; }

// A window on the source: `reach` positions on either side of `place`, or of a predicted centre, whose Gaussian it then has.
struct Near {
    const void* centre;  // before a sigmoid, a number for each head
    int64_t centre_next, place, reach, bounds, renorm, scored;  // bounds: floor(p), round(p), p; scored: the Gaussian multiplies scores
};

// What scores gain from how far a key is from the query, in float32: [distance][whether the key is behind][heads].
struct Apart {
    const float* table;  // null: nothing
    int64_t query;       // its position among the keys
};

// The last visible position of a row, which is its own, written where it belongs.
template <class T>
void write_row(const Attention& a, int64_t row, T* keys, T* values, const T* new_keys, const T* new_values) {
    const int64_t sentence = place_among(a.places, row / a.per), slot = (a.visible - 1) * a.beams + row % a.per;
    for (int64_t h = 0; h < a.heads / a.group; h++) {
        std::memcpy(keys + sentence * a.key_sentence + h * a.key_head + slot * a.key_next,
                    new_keys + row * a.new_key_next + h * a.width, size_t(a.width) * sizeof(T));
        std::memcpy(values + sentence * a.value_sentence + h * a.value_head + slot * a.value_next,
                    new_values + row * a.new_value_next + h * a.value_width, size_t(a.value_width) * sizeof(T));
    }
}

// Where the keys and values of a row are, from the first slot of a head on, position by position: the same for all heads. The last
// one is there more than once, up to a multiple of four.
struct Where {
    std::vector<int64_t> key, value;

    Where& find(const Attention& a, int64_t visible, const int16_t* from) {
        key.resize(visible + 3), value.resize(visible + 3);
        for (int64_t p = 0; p < visible; p++) {
            const int64_t slot = p * a.beams + (from ? from[p] : 0);
            key[p] = slot * a.key_next, value[p] = slot * a.value_next;
        }
        for (int64_t p = visible; p < visible + 3; p++) key[p] = p ? key[p - 1] : 0, value[p] = p ? value[p - 1] : 0;
        return *this;
    }
};

// What is seen after a head: it is asked for position by position, while that head's are read. All at once would hold up the reading.
template <class T>
struct Coming {
    const T* first = nullptr;  // null: nothing
    const int64_t* at = nullptr;
    int64_t width = 0;

    // WIDE: its width, where that is known; 0: any.
    template <int WIDE>
    void ask(int64_t p) const {
        if (!first) return;
        const char* from = (const char*)(first + at[p]);
        for (int64_t b = 0; b < (WIDE ? WIDE : width) * int64_t(sizeof(T)); b += 64) __builtin_prefetch(from + b, 0, 3);
    }
};

constexpr int64_t HALF_NEAR = 24 << 10;  // bytes: half of the nearest cache

// The keys and values of a row's sentence. Where they come from far away, those that are seen next are asked for: after the keys of a
// head its values, and after its values the next sentence's keys, if so much fits the nearest cache; else those of the next head.
template <class T>
struct Seen {
    const Attention& a;
    const T *k, *v;
    const Where& where;
    int64_t row;
    bool alone, whole;  // whether no other row of its sentence sees the same slots; whether a row's keys fit

    Seen(const Attention& a, int64_t row, const T* keys, const T* values, const Where& where, int64_t visible, bool ancestry)
        : a(a), k(keys), v(values), where(where), row(row), alone(ancestry) {
        const int64_t sentence = place_among(a.places, row / a.per);
        k += sentence * a.key_sentence, v += sentence * a.value_sentence;
        const int64_t numbers = a.heads / a.group * visible * std::max(a.width, a.value_width);
        whole = !ancestry && numbers * int64_t(sizeof(T)) <= HALF_NEAR;
    }

    Coming<T> keys_of(int64_t shared) const { return {k + shared * a.key_head, where.key.data(), a.width}; }
    Coming<T> next_keys_of(int64_t shared) const {
        const int64_t sentence = row / a.per, apart = place_among(a.places, sentence + 1) - place_among(a.places, sentence);
        return {k + apart * a.key_sentence + shared * a.key_head, where.key.data(), a.width};
    }
    Coming<T> values_of(int64_t shared) const { return {v + shared * a.value_head, where.value.data(), a.value_width}; }

    Coming<T> after_keys(int64_t h) const {
        const int64_t shared = h / a.group;
        if ((h + 1) % a.group || (row % a.per && !alone)) return {};
        if (whole) return values_of(shared);
        return h + 1 < a.heads ? keys_of(shared + 1) : values_of(0);
    }
    Coming<T> after_values(int64_t h) const {
        const int64_t shared = h / a.group;
        if ((h + 1) % a.group) return {};
        if (!whole && h + 1 < a.heads) return row % a.per && !alone ? Coming<T>{} : values_of(shared + 1);
        return (row + 1) % a.per || row + 1 == a.rows ? Coming<T>{} : next_keys_of(whole ? shared : 0);
    }
};

constexpr int USUAL = 64;  // numbers of a head, for which the compiler writes code of its own

// The scores of one head, at most three behind the last; with `pairs` by products of pairs. WIDE: the width of its keys; 0: any.
template <int WIDE, class T>
inline void score_head(const Attention& a, int64_t visible, const T* q, const T* k, const int64_t* at, bool pairs, const Coming<T>& coming,
                       float* query, float* score) {
    const int64_t width = WIDE ? WIDE : a.width;
    if (!pairs)
        for (int64_t d = 0; d < width; d += STRIP) store(query + d, load_some(q + d, int(width - d)) * a.scale);
    for (int64_t p = 0; p < visible; p += 4) {
        const T* four[4];
        for (int i = 0; i < 4; i++) {
            four[i] = k + at[p + i];
            coming.template ask<WIDE>(p + i);
        }
        if (pairs) four_dots_of_pairs((const Half*)q, (const Half* const*)four, width, score + p);
        else four_dots(query, four, width, score + p);
    }
}

// Scores become the exponentials of what they are below the highest; returns one over their sum.
template <class T>
inline float weigh(float* score, int64_t visible, const uint8_t* hidden) {
    if (hidden)
        for (int64_t p = 0; p < visible; p++) score[p] = hidden[p] ? NOTHING : score[p];
    Floats high = load_some(score, int(visible), NOTHING), sums{};
    for (int64_t p = STRIP; p < visible; p += STRIP) high = largest(high, load_some(score + p, int(visible - p), NOTHING));
    float highest = max_of(high);
    if (highest == NOTHING) {  // nothing to see: the mean of all
        std::fill(score, score + visible, 0.0f);
        highest = 0;
    }
    for (int64_t p = 0; p < visible; p += STRIP) {
        const Floats s = load_some(score + p, int(visible - p), NOTHING), e = as<T>(exp_of(s - highest));
        const Floats kept = s == NOTHING ? Floats{} : e;
        store(score + p, kept);
        sums += kept;
    }
    return 1.0f / sum_of(sums);
}

// Where a window stands: the top of its Gaussian, and what its bounds are counted from.
struct Stand {
    float place, centre;
};

template <class T>
inline Stand stand_of(const Near& a, int64_t row, int64_t head, int64_t visible, const uint8_t* hidden) {
    int64_t words = visible;
    for (int64_t p = 0; hidden && p < visible; p++) words -= hidden[p] != 0;
    if (!a.centre) return {float(std::min(a.place, words - 1)), float(std::min(a.place, words - 1))};
    const float place = words / (1.0f + std::exp(-load_some((const T*)a.centre + row * a.centre_next + head, 1)[0]));
    return {place, a.bounds == 2 ? place : std::floor(a.bounds == 1 ? place + 0.5f : place)};
}

// How much of its numbers the Gaussian of a window leaves at STRIP positions, which are so far from its top.
inline Floats left_of(const Near& a, Floats away) { return exp_of(away * away * (-2.0f / (a.reach * a.reach))); }

// The same through a window.
template <class T>
inline float weigh_near(const Near& a, const Stand& stand, float* score, int64_t visible, const uint8_t* hidden) {
    const auto [place, centre] = stand;
    const Floats first = __builtin_convertvector(LANES, Floats) - place;
    Floats sums{}, at = first;
    for (int64_t p = 0; a.scored && p < visible; p += STRIP, at += float(STRIP)) store(score + p, load(score + p) * left_of(a, at));
    for (int64_t p = 0; p < visible; p++)
        if (std::abs(p - centre) > a.reach || (hidden && hidden[p])) score[p] = NOTHING;
    const float share = weigh<T>(score, visible, nullptr);
    if (!a.centre || a.scored) return share;
    at = first;
    for (int64_t p = 0; p < visible; p += STRIP, at += float(STRIP)) {
        const Floats left = as<T>(load(score + p) * left_of(a, at));
        store(score + p, left);
        sums += left;
    }
    return a.renorm ? 1.0f / sum_of(sums) : share;
}

// Where padding begins; all places where nothing can be seen.
inline int64_t behind_last_seen(const uint8_t* hidden, int64_t visible) {
    int64_t behind = visible;
    while (behind > 0 && hidden[behind - 1]) behind--;
    return behind ? behind : visible;
}

// One step of attention for a row, phase by phase for all heads, so that no head waits for another. `FAR`: keys and values come from
// far away.
template <bool FAR, class T>
void attend_row(const Attention& a, int64_t row, const T* q, const T* keys, const T* values, const int16_t* origin,
                const uint8_t* blocked, T* out, std::vector<float>& space, const Near* near = nullptr, Apart apart = {}) {
    const int64_t sentence = place_among(a.places, row / a.per), line = (a.visible + 2 * STRIP + 15) / 16 * 16;
    const int16_t* from = origin ? origin + row * a.origin_next : nullptr;
    const uint8_t* hidden = blocked ? blocked + sentence * a.visible : nullptr;
    const int64_t visible = hidden ? behind_last_seen(hidden, a.visible) : a.visible;
    if (hidden && !std::memchr(hidden, 1, size_t(visible))) hidden = nullptr;
    static thread_local Where found;
    const Where& where = found.find(a, visible, from);
    space.resize(a.heads * (line + 1) + a.width + a.value_width + 4 * STRIP);
    float *scores = space.data(), *share = scores + a.heads * line, *query = share + a.heads, *context = query + a.width + STRIP;
    const bool pairs = PAIRS && sizeof(T) == 2 && a.scale == 1 && a.width % 32 == 0;
    const Seen<T> seen(a, row, keys, values, where, visible, from != nullptr);
    for (int64_t h = 0; h < a.heads; h++) {
        const Coming<T> coming = FAR ? seen.after_keys(h) : Coming<T>{};
        const T *from_q = q + row * a.q_next + h * a.width, *k = seen.keys_of(h / a.group).first;
        if (a.width == USUAL) score_head<USUAL>(a, visible, from_q, k, where.key.data(), pairs, coming, query, scores + h * line);
        else score_head<0>(a, visible, from_q, k, where.key.data(), pairs, coming, query, scores + h * line);
        for (int64_t p = 0; apart.table && p < visible; p++)
            scores[h * line + p] += apart.table[(std::abs(p - apart.query) * 2 + (p > apart.query)) * a.heads + h];
    }
    for (int64_t h = 0; h < a.heads; h++) {
        float* score = scores + h * line;
        share[h] = near ? weigh_near<T>(*near, stand_of<T>(*near, row, h, visible, hidden), score, visible, hidden)
                        : weigh<T>(score, visible, hidden);
    }
    for (int64_t h = 0; h < a.heads; h++) {
        const T* here = seen.values_of(h / a.group).first;
        const Coming<T> coming = FAR ? seen.after_values(h) : Coming<T>{};
        int64_t d = 0;
        auto at = [&](int64_t p) {
            if (d == 0) a.value_width == USUAL ? coming.template ask<USUAL>(p) : coming.template ask<0>(p);
            return here + where.value[p] + d;
        };
        T* to = out + row * a.out_next + h * a.value_width;
        if constexpr (PAIRS && sizeof(T) == 2)
            for (; d + 32 <= a.value_width;) {
                if (d + 64 <= a.value_width) weighted_pairs<2>(scores + h * line, visible, at, context + d), d += 64;
                else weighted_pairs<1>(scores + h * line, visible, at, context + d), d += 32;
            }
        if (d < a.value_width)
            weighted<T>(scores + h * line, visible, at, a.value_width - d, context + d);
        for (int64_t j = 0; j < a.value_width; j += STRIP)
            store_some(to + j, load(context + j) * share[h], int(a.value_width - j));
    }
}

template <class T>
void attend(const Attention& a, const T* q, T* keys, T* values, const T* new_keys, const T* new_values,
            const int16_t* origin, const uint8_t* blocked, T* out, int threads, const Near* near = nullptr, Apart apart = {}) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        static thread_local std::vector<float> space;
        for (int64_t row = a.rows * part / threads; row < a.rows * (part + 1) / threads; row++) {
            if (new_keys) write_row(a, row, keys, values, new_keys, new_values);
            attend_row<true>(a, row, q, keys, values, origin, blocked, out, space, near, apart);
        }
    }
}

// The sum over a row of what `each` makes of the numbers of a vector from d on, of which n are there; in four sums by turns.
template <class Each>
inline float sum_over(int64_t width, const Each& each) {
    Floats a{}, b{}, c{}, e{};
    int64_t d = 0;
    for (; d + 4 * STRIP <= width; d += 4 * STRIP)
        a += each(d, STRIP), b += each(d + STRIP, STRIP), c += each(d + 2 * STRIP, STRIP), e += each(d + 3 * STRIP, STRIP);
    for (; d < width; d += STRIP) a += each(d, int(std::min<int64_t>(STRIP, width - d)));
    return sum_of((a + b) + (c + e));
}

// Of R rows together, so that none waits for its own sums; each alike, however many there are.
template <int R, class T>
void norm_rows(const T* in, int64_t in_next, int64_t width, const T* gain, const T* shift, float epsilon, T* out, int64_t out_next) {
    Floats sums[4]{}, squares[4]{};
    float mean[4], scale[4];
    for (int64_t d = 0; d < width; d += STRIP)
        for (int r = 0; r < R; r++) sums[r] += load_some(in + r * in_next + d, int(width - d));
    four_sums(sums, mean);
    for (int r = 0; r < R; r++) mean[r] /= width;
    for (int64_t d = 0; d < width; d += STRIP)
        for (int r = 0; r < R; r++) {
            const Floats apart = load_some(in + r * in_next + d, int(width - d), mean[r]) - mean[r];
            squares[r] += apart * apart;
        }
    four_sums(squares, scale);
    for (int r = 0; r < R; r++) scale[r] = 1.0f / std::sqrt(scale[r] / width + epsilon);
    for (int64_t d = 0; d < width; d += STRIP) {
        const int n = int(width - d);
        const Floats by = load_some(gain + d, n), more = load_some(shift + d, n);
        for (int r = 0; r < R; r++)
            store_some(out + r * out_next + d, (load_some(in + r * in_next + d, n) - mean[r]) * scale[r] * by + more, n);
    }
}

// Up to four.
template <int R = 4, class T>
void norm_up_to(int64_t count, const T* in, int64_t in_next, int64_t width, const T* gain, const T* shift, float epsilon, T* out,
                int64_t out_next) {
    if (count >= R) norm_rows<R>(in, in_next, width, gain, shift, epsilon, out, out_next);
    else if constexpr (R > 1) norm_up_to<R - 1>(count, in, in_next, width, gain, shift, epsilon, out, out_next);
}

template <class T>
void root_norm_row(const T* in, int64_t width, const T* gain, float epsilon, T* out) {
    const float squares = sum_over(width, [&](int64_t d, int n) {
        const Floats x = load_some(in + d, n);
        return x * x;
    });
    const float scale = 1.0f / std::sqrt(squares / width + epsilon);
    for (int64_t d = 0; d < width; d += STRIP) {
        const int n = int(width - d);
        const Floats y = as<T>(load_some(in + d, n) * scale);
        store_some(out + d, gain ? y * load_some(gain + d, n) : y, n);
    }
}

}  // namespace
