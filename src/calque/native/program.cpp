// A step of a decoder, or the whole of an encoder, as one call: a list of operations over rows, written down once by
// `calque.native.program` and run for every step.
//
// A buffer is as many lines as there are rows; its place in the arena is that for one row times `room`. Numbers between
// operations are of type T, rounded where torch's operators round them. No row depends on another.

#include "program.h"

#include "products.h"
#include "rows.h"

namespace {

enum Kind { EMBED, POSITION, NORM, PRODUCT, ATTEND, ATTEND_SOURCE, ATTEND_SELF, ACT, JOIN, GLU, COPY, READ, WRITE, AVERAGE,
            GATED, LSTM, GRU, WINDOW, BAND, FORESEEN, ATTEND_MLP, NEIGHBOURS, BAND_SELF, ROOT_NORM, TURN,
            NOT_FIRST, REAL_GATED, MATRIX, ATTEND_NEAR, ATTEND_LOCATION, FLIP, SWEEP, GATHER, SCATTER,
            SCALE, MIX };
enum Function { NONE, RELU, TANH, SIGMOID, GELU, GELU_TANH, SILU, RELU2 };
enum Joint { ADD, MULTIPLY };
enum Decay { CONSTANT, BY_HEAD, BY_CHANNEL };
// ROOT, LEAST and TINY of layers/linear_attention.py, and what it divides the length of a key by at least.
constexpr float DECAY_ROOT = 16, LEAST_LOG_DECAY = -50, LEAST_SHARE = 1e-30f, LEAST_LENGTH = 1e-6f;

inline Floats activated(int64_t function, Floats x) {
    switch (function) {
        case RELU: return largest(Floats{}, x);
        case TANH: return tanh_of(x);
        case SIGMOID: return sigmoid(x);
        case GELU:
            for (int i = 0; i < STRIP; i++) x[i] *= 0.5f * (1.0f + std::erf(x[i] * 0.70710678f));
            return x;
        case GELU_TANH: return 0.5f * x * (1.0f + tanh_of(0.79788456f * (x + 0.044715f * x * x * x)));
        case SILU: return x * sigmoid(x);
        case RELU2: return largest(x, Floats{}) * largest(x, Floats{});
    }
    return x;
}

// Writes a product, activated and added to, each time rounded as a tensor would hold it.
template <class T>
struct Ended {
    T* out;
    const T* added;
    int64_t next, added_next, function;

    void pair(int, int64_t row, int64_t column, Floats y, Floats y2) const {
        if (function) y = activated(function, as<T>(y)), y2 = activated(function, as<T>(y2));
        if (added) {
            const T* more = added + row * added_next + column;
            y = as<T>(y) + load(more), y2 = as<T>(y2) + load(more + STRIP);
        }
        store_pair(out + row * next + column, y, y2);
    }
    void some(int, int64_t row, int64_t column, int n, Floats y) const {
        if (function) y = activated(function, as<T>(y));
        if (added) y = as<T>(y) + load_some(added + row * added_next + column, n);
        store_some(out + row * next + column, y, n);
    }
};

template <class T>
struct Run {
    const Frame& f;

    T* at(const Place& p, int64_t row = 0) const {
        return (T*)(f.arena + p.base * f.room) + p.column + row * p.next;
    }
    // A row of a tensor from outside, of the rows' own type or in float32.
    template <class U = T>
    U* row_of(int64_t index, int64_t row) const {
        return (U*)f.bound[index].data + row * f.bound[index].next[0];
    }
    // What the step before has left for a row.
    template <class U = T>
    const U* left_for(int64_t index, int64_t row) const {
        return row_of<U>(index, f.parents ? f.parents[row] : row);
    }
    // Where the tensors that sentences have hold that of a row.
    int64_t sentence_of(int64_t row) const { return place_among(f.places, row / f.beams); }
    // Each row, or the first of so many.
    template <class Each>
    void rows(const Each& each, int64_t many = 1) const {
#pragma omp parallel for num_threads(f.threads) schedule(static) if (f.threads > 1)
        for (int64_t row = 0; row < f.rows; row += many) each(row);
    }
    template <class Each>
    void vectors(int64_t width, const Each& each) const {
        rows([&](int64_t row) {
            int64_t d = 0;
            for (; d + STRIP <= width; d += STRIP) each(row, d, STRIP);
            if (d < width) each(row, d, int(width - d));
        });
    }
    template <class Each>
    void sentences(const Each& each) const {
#pragma omp parallel for num_threads(f.threads) schedule(static) if (f.threads > 1)
        for (int64_t s = 0; s < f.sentences; s++) each(f.starts[s], f.starts[s + 1]);
    }

    template <class Item>
    void multiply(const Operation& o) const {
        const Weights w{(const char*)o.p[0], (const float*)o.p[1], (const int32_t*)o.p[2], (const float*)o.p[3], o.out.width, o.x.width};
        const T* added = o.y.base < 0 ? nullptr : at(o.y);
        Ended<T> sink{at(o.out), added, o.out.next, o.y.next, o.n[1]};
        product(laid_out<Item>(at(o.x), o.x.next, f.rows, o.x.width), w, int(f.threads), sink);
    }

    // The window of a look at the source; centre: where it stands, if that is predicted; form: bounds + 4 renorm + 8 scored.
    Near near_of(const Place& centre, int64_t reach, float form) const {
        const int64_t said = int64_t(form);
        return {centre.base < 0 ? nullptr : at(centre), centre.next, f.visible - 1, reach, said % 4, said / 4 % 2, said / 8};
    }

    // n: keys, values, heads, heads of keys, numbers of a key, of a value, which positions are blocked or -1; of the source the reach
    // of a window or -1, y: its centres if they are predicted; f: the scale, the form of the window; p: what scores gain by distance.
    void attend_to(const Operation& o, bool source) const {
        const Bound &k = f.bound[o.n[0]], &v = f.bound[o.n[1]];
        const int64_t beams = source ? 1 : f.beams;
        Attention a{};
        a.rows = f.rows, a.per = f.beams, a.heads = o.n[2], a.group = o.n[2] / o.n[3], a.width = o.n[4], a.value_width = o.n[5];
        a.visible = source ? k.size : f.visible;
        a.q_next = o.x.next, a.out_next = o.out.next, a.scale = o.f[0], a.beams = beams;
        a.key_sentence = k.next[0], a.key_head = k.next[1], a.value_sentence = v.next[0], a.value_head = v.next[1];
        a.places = f.places, a.key_next = k.next[2] / beams, a.value_next = v.next[2] / beams;
        a.origin_next = f.origin_next, a.new_key_next = o.y.next, a.new_value_next = o.z.next;
        const Near near = near_of(o.y, o.n[7], o.f[1]);
        const uint8_t* blocked = o.n[6] < 0 ? nullptr : (const uint8_t*)f.bound[o.n[6]].data;
        attend(a, at(o.x), (T*)k.data, (T*)v.data, source ? nullptr : at(o.y), source ? nullptr : at(o.z),
               source || beams == 1 ? nullptr : f.origin, blocked, at(o.out), int(f.threads),
               source && o.n[7] >= 0 ? &near : nullptr, {(const float*)o.p[0], f.visible - 1});
    }

    // Every row to all of its sentence, or to n[6] positions before it and n[7] behind; p: what scores gain by distance.
    void attend_self(const Operation& o) const {
        sentences([&](int64_t first, int64_t last) {
            static thread_local std::vector<float> space;
            Attention a{};
            a.per = a.rows = last - first, a.heads = o.n[2], a.group = o.n[2] / o.n[3];
            a.width = o.n[4], a.value_width = o.n[5], a.q_next = o.x.next, a.out_next = o.out.next, a.scale = o.f[0];
            a.key_head = a.width, a.value_head = a.value_width, a.key_next = o.y.next, a.value_next = o.z.next, a.beams = 1;
            for (int64_t row = 0; row < a.rows; row++) {
                const int64_t from = o.n[6] < 0 ? 0 : std::max<int64_t>(0, row - o.n[6]);
                a.visible = (o.n[6] < 0 ? a.rows : std::min(a.rows, row + o.n[7] + 1)) - from;
                attend_row<false>(a, row, at(o.x, first), at(o.y, first + from), at(o.z, first + from), nullptr, nullptr, at(o.out, first),
                                  space, nullptr, {(const float*)o.p[0], row - from});
            }
        });
    }

    // x: queries; y, z: the row's own key and value. n: keys and values of the last positions, side by side, and those behind this one,
    // how many, heads, heads of keys, numbers of a key, of a value; p: what scores gain by distance.
    void attend_near(const Operation& o) const {
        const int64_t length = o.n[2], kept = o.y.width + o.z.width;
        rows([&](int64_t row) {
            static thread_local std::vector<float> space;
            static thread_local std::vector<T> seen;
            seen.resize((length + 1) * kept);
            const T* last = left_for(o.n[0], row);
            for (int64_t j = 0; j < length; j++)
                std::memcpy(&seen[j * kept], last + j * f.bound[o.n[0]].next[1], size_t(kept) * sizeof(T));
            std::memcpy(&seen[length * kept], at(o.y, row), size_t(o.y.width) * sizeof(T));
            std::memcpy(&seen[length * kept + o.y.width], at(o.z, row), size_t(o.z.width) * sizeof(T));
            if (length) std::memcpy(row_of(o.n[1], row), &seen[kept], size_t(length * kept) * sizeof(T));
            Attention a{};
            a.per = a.rows = a.beams = 1, a.visible = std::min(f.visible, length + 1), a.heads = o.n[3], a.group = o.n[3] / o.n[4];
            a.width = o.n[5], a.value_width = o.n[6], a.key_head = a.width, a.value_head = a.value_width;
            a.key_next = a.value_next = kept, a.scale = o.f[0];
            const T* keys = &seen[(length + 1 - a.visible) * kept];
            attend_row<false>(a, 0, at(o.x, row), keys, keys + o.y.width, nullptr, nullptr, at(o.out, row), space, nullptr,
                              {(const float*)o.p[0], a.visible - 1});
        });
    }

    // n: keys, values, which positions are blocked or -1, the reach of a window or -1; y: its centres if they are predicted;
    // p: the weights of the scores; f: the form of the window.
    void attend_mlp(const Operation& o) const {
        const Bound &k = f.bound[o.n[0]], &v = f.bound[o.n[1]];
        const int64_t hidden = o.x.width, wide = o.out.width;
        rows([&](int64_t row) {
            static thread_local std::vector<float> space;
            const int64_t sentence = sentence_of(row);
            const uint8_t* blocked = o.n[2] < 0 ? nullptr : (const uint8_t*)f.bound[o.n[2]].data + sentence * k.size;
            const int64_t length = blocked ? behind_last_seen(blocked, k.size) : k.size;
            space.resize(length + wide + 4 * STRIP);
            const T *keys = (const T*)k.data + sentence * k.next[0], *values = (const T*)v.data + sentence * v.next[0];
            float *score = space.data(), *context = score + length + 2 * STRIP;
            for (int64_t p = 0; p < length; p++) {
                score[p] = sum_over(hidden, [&](int64_t d, int n) {
                    const Floats seen = as<T>(load_some(at(o.x, row) + d, n) + load_some(keys + p * k.next[1] + d, n));
                    return as<T>(tanh_of(seen)) * load_some((const T*)o.p[0] + d, n);
                });
                if (sizeof(T) == 2) score[p] = as<T>(all(score[p]))[0];
            }
            const Near near = near_of(o.y, o.n[3], o.f[0]);
            const float share = near.reach < 0 ? weigh<T>(score, length, blocked)
                                               : weigh_near<T>(near, stand_of<T>(near, row, 0, length, blocked), score, length, blocked);
            weighted<T>(score, length, [&](int64_t p) { return values + p * v.next[1]; }, wide, context);
            for (int64_t d = 0; d < wide; d += STRIP) store_some(at(o.out, row) + d, load(context + d) * share, int(wide - d));
        });
    }

    // x: a score for each of the first positions, or for each of a window from its first on. n: values, which positions are blocked
    // or -1, the reach of a window or -1; y: its centres if they are predicted; f: its form. Without a window or `renorm` the
    // softmax is over all scores, and what falls behind the sentence is lost.
    void attend_location(const Operation& o) const {
        const Bound& v = f.bound[o.n[0]];
        const int64_t slots = o.x.width, wide = o.out.width;
        rows([&](int64_t row) {
            static thread_local std::vector<float> space;
            const int64_t sentence = sentence_of(row);
            const uint8_t* blocked = o.n[1] < 0 ? nullptr : (const uint8_t*)f.bound[o.n[1]].data + sentence * v.size;
            const int64_t length = blocked ? behind_last_seen(blocked, v.size) : v.size, most = std::max(slots, length);
            space.assign(size_t(most + wide + 4 * STRIP), NOTHING);
            float *score = space.data(), *context = score + most + 2 * STRIP, share;
            const Near near = near_of(o.y, o.n[2], o.f[0]);
            const bool renorm = near.renorm, whole = near.reach < 0;
            const Stand stand = whole ? Stand{} : stand_of<T>(near, row, 0, length, blocked);
            for (int64_t p = 0; p < (whole ? std::min(slots, most) : length); p++) {
                const float place = whole ? float(p) : std::floor(p - stand.centre + (slots - 1) / 2);
                score[p] = one(at(o.x, row) + int64_t(std::min(std::max(0.0f, place), float(slots - 1))));
            }
            if (!whole) share = weigh_near<T>(near, stand, score, length, blocked);
            else share = weigh<T>(score, renorm ? length : slots, renorm ? blocked : nullptr);
            const int64_t seen = whole && !renorm ? std::min(slots, length) : length;
            for (int64_t p = 0; whole && blocked && !renorm && p < seen; p++) score[p] = blocked[p] ? 0 : score[p];
            const T* values = (const T*)v.data + sentence * v.next[0];
            weighted<T>(score, seen, [&](int64_t p) { return values + p * v.next[1]; }, wide, context);
            for (int64_t d = 0; d < wide; d += STRIP) store_some(at(o.out, row) + d, load(context + d) * share, int(wide - d));
        });
    }

    // n: the window, the window behind this position, its length, positions between two inputs.
    void window(const Operation& o) const {
        const int64_t width = o.x.width, length = o.n[2];
        rows([&](int64_t row) {
            const T *last = left_for(o.n[0], row), *x = at(o.x, row);
            const int64_t step = f.bound[o.n[0]].next[1];
            T *out = at(o.out, row), *after = row_of(o.n[1], row);
            for (int64_t j = 0, to = 0; j <= length; j += o.n[3], to++)
                std::memcpy(out + to * width, j < length ? last + j * step : x, size_t(width) * sizeof(T));
            shift(last, step, x, after, length, width);
        });
    }

    void shift(const T* last, int64_t step, const T* x, T* after, int64_t length, int64_t width) const {
        for (int64_t j = 1; j <= length; j++)
            std::memcpy(after + (j - 1) * width, j < length ? last + j * step : x, size_t(width) * sizeof(T));
    }

    // The weights of `count` inputs of a row [count][width]: p, the same for all rows, or those of its heads in y, behind a softmax if so.
    const float* weights_of(const Operation& o, int64_t row, int64_t count, int64_t heads, bool soft) const {
        if (o.y.base < 0) return (const float*)o.p[0];
        static thread_local std::vector<float> space;
        const int64_t width = o.x.width, each = width / heads;
        space.resize(size_t(count * (width + 1) + 2 * STRIP));
        float* score = space.data() + count * width;
        for (int64_t h = 0; h < heads; h++) {
            for (int64_t j = 0; j < count; j++) score[j] = one(at(o.y, row) + h * count + j);
            const float share = soft ? weigh<float>(score, count, nullptr) : 1;
            for (int64_t j = 0; j < count; j++) std::fill_n(space.data() + j * width + h * each, each, score[j] * share);
        }
        return space.data();
    }

    // The same, added up with weights of length + 1 inputs; n[3] heads, n[4] a softmax. Windows come from far away: that of the next
    // row is asked for, and the one behind this position is written in the same pass.
    void band(const Operation& o) const {
        const int64_t width = o.x.width, length = o.n[2];
        rows([&](int64_t row) {
            const float* weights = weights_of(o, row, length + 1, o.n[3], o.n[4]);
            const T *last = left_for(o.n[0], row), *x = at(o.x, row), *coming = left_for(o.n[0], std::min(row + 1, f.rows - 1));
            const int64_t step = f.bound[o.n[0]].next[1];
            T* after = row_of(o.n[1], row);
            constexpr int MANY = 4, BYTES_OF_MANY = MANY * STRIP * sizeof(T);
            int64_t d = 0;
            for (; d + MANY * STRIP <= width; d += MANY * STRIP) {
                Floats sum[MANY]{};
                for (int64_t j = 0; j <= length; j++) {
                    const T* from = j < length ? last + j * step + d : x + d;
                    for (int i = 0; i < MANY; i++) sum[i] += load(from + i * STRIP) * load(weights + j * width + d + i * STRIP);
                    for (int b = 0; b < BYTES_OF_MANY; b += 64) __builtin_prefetch((const char*)(coming + j * step + d) + b, 0, 3);
                    if (j) std::memcpy(after + (j - 1) * width + d, from, BYTES_OF_MANY);
                }
                for (int i = 0; i < MANY; i++) store(at(o.out, row) + d + i * STRIP, sum[i]);
            }
            for (; d < width; d += STRIP) {
                const int n = int(std::min<int64_t>(STRIP, width - d));
                Floats sum{};
                for (int64_t j = 0; j <= length; j++) {
                    const T* from = j < length ? last + j * step + d : x + d;
                    sum += load_some(from, n) * load_some(weights + j * width + d, n);
                    if (j) copy_some(after + (j - 1) * width + d, from, n);
                }
                store_some(at(o.out, row) + d, sum, n);
            }
        });
    }

    // Of an encoder: inputs n[0] before to n[1] behind a row, n[2] apart, side by side; zeros outside the sentence.
    void neighbours(const Operation& o) const {
        const int64_t width = o.x.width;
        sentences([&](int64_t first, int64_t last) {
            for (int64_t row = first; row < last; row++)
                for (int64_t j = -o.n[0], to = 0; j <= o.n[1]; j += o.n[2], to++) {
                    T* out = at(o.out, row) + to * width;
                    if (row + j < first || row + j >= last) std::memset((void*)out, 0, size_t(width) * sizeof(T));
                    else std::memcpy(out, at(o.x, row + j), size_t(width) * sizeof(T));
                }
        });
    }

    // The same, added up with weights of n[0] + 1 + n[1] inputs; n[2] heads, n[3] a softmax.
    void band_self(const Operation& o) const {
        const int64_t width = o.x.width;
        sentences([&](int64_t first, int64_t last) {
            for (int64_t row = first; row < last; row++) {
                const float* weights = weights_of(o, row, o.n[0] + 1 + o.n[1], o.n[2], o.n[3]);
                for (int64_t d = 0; d < width; d += STRIP) {
                    const int n = int(std::min<int64_t>(STRIP, width - d));
                    Floats sum{};
                    for (int64_t j = std::max(-o.n[0], first - row); j <= std::min(o.n[1], last - 1 - row); j++)
                        sum += load_some(at(o.x, row + j) + d, n) * load_some(weights + (j + o.n[0]) * width + d, n);
                    store_some(at(o.out, row) + d, sum, n);
                }
            }
        });
    }

    // Of an encoder: the rows of every sentence in opposite order.
    void flip(const Operation& o) const {
        sentences([&](int64_t first, int64_t last) {
            for (int64_t row = first; row < last; row++)
                std::memcpy(at(o.out, row), at(o.x, first + last - 1 - row), size_t(o.out.width) * sizeof(T));
        });
    }

    // x and y: what input and state say. n: the cell and the cell behind; f: what the forget gate gains.
    void lstm(const Operation& o) const {
        const int64_t width = o.out.width;
        rows([&](int64_t row) {
            const T *x = at(o.x, row), *y = at(o.y, row);
            const float* before = left_for<float>(o.n[0], row);
            float* after = row_of<float>(o.n[1], row);
            T* out = at(o.out, row);
            for (int64_t d = 0; d < width; d += STRIP) {
                const int n = int(std::min<int64_t>(STRIP, width - d));
                Floats gate[4];
                for (int i = 0; i < 4; i++) gate[i] = as<T>(load_some(x + i * width + d, n) + load_some(y + i * width + d, n));
                const Floats c = sigmoid(gate[1] + o.f[0]) * load_some(before + d, n) + sigmoid(gate[0]) * tanh_of(gate[2]);
                store_some(after + d, c, n);
                store_some(out + d, sigmoid(gate[3]) * tanh_of(c), n);
            }
        });
    }

    // z: the state before.
    void gru(const Operation& o) const {
        const int64_t width = o.out.width;
        vectors(width, [&](int64_t row, int64_t d, int n) {
            Floats x[3], h[3];
            for (int i = 0; i < 3; i++)
                x[i] = load_some(at(o.x, row) + i * width + d, n), h[i] = load_some(at(o.y, row) + i * width + d, n);
            const Floats keep = sigmoid(x[1] + h[1]), made = tanh_of(x[2] + sigmoid(x[0] + h[0]) * h[2]);
            store_some(at(o.out, row) + d, made + keep * (load_some(at(o.z, row) + d, n) - made), n);
        });
    }

    // Where an operation with a state of float32 takes it from and leaves it: n[0], n[1].
    template <class Each>
    void scan(const Operation& o, const Each& each) const {
        vectors(o.out.width, [&](int64_t row, int64_t d, int n) {
            Floats h = load_some(left_for<float>(o.n[0], row) + d, n);
            const Floats y = each(row, d, n, h);
            store_some(row_of<float>(o.n[1], row) + d, h, n);
            store_some(at(o.out, row) + d, y, n);
        });
    }

    int64_t place_of(int64_t row) const { return f.positions ? f.positions[row] : f.visible - 1; }

    // p: cosines and sines [position][2][half] in float32; n: positions, the width of a head. Halves of a head are turned.
    void turn(const Operation& o) const {
        const int64_t width = o.n[1], half = width / 2;
        rows([&](int64_t row) {
            const float *cosine = (const float*)o.p[0] + std::min(place_of(row), o.n[0] - 1) * width, *sine = cosine + half;
            for (int64_t head = 0; head < o.x.width; head += width)
                for (int64_t d = 0; d < half; d += STRIP) {
                    const int n = int(std::min<int64_t>(STRIP, half - d));
                    const Floats a = load_some(at(o.x, row) + head + d, n), b = load_some(at(o.x, row) + head + half + d, n);
                    const Floats c = load_some(cosine + d, n), s = load_some(sine + d, n);
                    store_some(at(o.out, row) + head + d, a * c - b * s, n);
                    store_some(at(o.out, row) + head + half + d, b * c + a * s, n);
                }
        });
    }

    // x: what the forget gate says; y: the input gate; z: the input. p: log a of an open gate.
    void real_gated(const Operation& o) const {
        scan(o, [&](int64_t row, int64_t d, int n, Floats& h) {
            const Floats log_a = load_some((const float*)o.p[0] + d, n) * sigmoid(load_some(at(o.x, row) + d, n));
            const Floats m = -2.0f * log_a, near = m * (1.0f - m * (0.5f - m * (0.16666667f - m * (0.041666667f - m * 0.0083333333f))));
            Floats kept = (m < 0.1f ? near : 1.0f - exp_of(-m)) + o.f[0];
            h = exp_of(log_a) * h + root_of(kept) * sigmoid(load_some(at(o.y, row) + d, n)) * load_some(at(o.z, row) + d, n);
            return h;
        });
    }

    // A query or a key of a row as a matrix reads it: behind its function, and turned.
    void featured(const Operation& o, int64_t row, const T* from, float* to) const {
        const int64_t width = o.n[4], half = width / 2;
        for (int64_t d = 0; d < width; d += STRIP) {
            const int n = int(std::min<int64_t>(STRIP, width - d));
            const Floats x = load_some(from + d, n);
            const Floats raised = x < 0 ? exp_of(x < 0 ? x : Floats{}) : x + 1.0f;
            store_some(to + d, o.n[6] < 0 ? raised : activated(o.n[6], x), n);
        }
        if (!o.p[0]) return;
        const float* angle = (const float*)o.p[0] + std::min(place_of(row), o.n[0] - 1) * width;
        for (int64_t d = 0; d < half; d++) {
            const float a = to[d], b = to[half + d];
            to[d] = a * angle[d] - b * angle[half + d], to[half + d] = b * angle[d] + a * angle[half + d];
        }
    }

    // x: queries, keys and values side by side; y: what decays follow from; z: what the strength of the delta rule does.
    // n: positions of the table of angles, matrices and those behind, heads, numbers of a key, of a value, the function of queries
    // and keys, below 0 elu + 1, decay + 4 delta; p: angles, of each head its decay or its rate, and its offset; f: scale of queries.
    void matrix(const Operation& o) const {
        const int64_t heads = o.n[3], keys = o.n[4], values = o.n[5], wide = values + (o.n[6] < 0), decay = o.n[7] % 4;
        const bool delta = o.n[7] / 4;
        rows([&](int64_t row) {
            static thread_local std::vector<float> space;
            space.resize(3 * keys + 2 * wide + 5 * STRIP);
            float *q = space.data(), *k = q + keys, *kept = k + keys, *u = kept + keys, *y = u + wide + STRIP;
            const T* x = at(o.x, row);
            for (int64_t h = 0; h < heads; h++) {
                featured(o, row, x + h * keys, q), featured(o, row, x + (heads + h) * keys, k);
                decays(o, row, h, decay, delta, k, kept);
                float size = 1;
                if (delta) {
                    float sum = 0;
                    for (int64_t d = 0; d < keys; d++) sum += k[d] * k[d];
                    size = 1 / std::max(std::sqrt(sum), LEAST_LENGTH);
                }
                for (int64_t d = 0; d < keys; d++) q[d] *= o.f[0], k[d] *= size;
                for (int64_t d = 0; d < wide; d++) u[d] = d < values ? one(x + 2 * heads * keys + h * values + d) : 1;
                const float* before = row_of<float>(o.n[1], row) + h * keys * wide;
                if (delta) {
                    const float strength = sigmoid(all(one(at(o.z, row) + h)))[0];
                    read(before, k, kept, keys, wide, y);
                    for (int64_t d = 0; d < wide; d++) u[d] = strength * (u[d] - y[d]);
                }
                write(before, row_of<float>(o.n[2], row) + h * keys * wide, q, k, kept, u, keys, wide, y);
                const float share = wide > values ? 1 / std::max(y[values], LEAST_SHARE) : 1;
                for (int64_t d = 0; d < values; d += STRIP)
                    store_some(at(o.out, row) + h * values + d, load(y + d) * share, int(std::min<int64_t>(STRIP, values - d)));
            }
        });
    }

    // What is kept of each line of a matrix; where the decay is the head's and there is no delta rule, the key is multiplied by the step.
    void decays(const Operation& o, int64_t row, int64_t h, int64_t decay, bool delta, float* k, float* kept) const {
        const int64_t keys = o.n[4];
        if (decay == BY_CHANNEL) {
            for (int64_t d = 0; d < keys; d++) {
                const float x = one(at(o.y, row) + h * keys + d), log_of = std::min(x, 0.0f) - std::log1p(std::exp(-std::abs(x)));
                kept[d] = std::max(log_of / DECAY_ROOT, LEAST_LOG_DECAY);
            }
            for (int64_t d = 0; d < keys; d += STRIP) {
                const int n = int(std::min<int64_t>(STRIP, keys - d));
                store_some(kept + d, exp_of(load_some(kept + d, n)), n);
            }
            return;
        }
        float factor = ((const float*)o.p[1])[h];
        if (decay == BY_HEAD) {
            const float x = one(at(o.y, row) + h) + ((const float*)o.p[2])[h], size = std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(x)));
            factor = exp_of(all(std::max(-size * factor, LEAST_LOG_DECAY)))[0];
            for (int64_t d = 0; d < keys && !delta; d++) k[d] *= size;
        }
        std::fill(kept, kept + keys, factor);
    }

    // y: the sum of the lines of a matrix [keys][wide], each by what is kept of it and by its weight k.
    static void read(const float* matrix, const float* k, const float* kept, int64_t keys, int64_t wide, float* y) {
        for (int64_t d = 0; d < wide; d += STRIP) {
            const int n = int(std::min<int64_t>(STRIP, wide - d));
            Floats sum{};
            for (int64_t i = 0; i < keys; i++) sum += kept[i] * k[i] * load_some(matrix + i * wide + d, n);
            store(y + d, sum);
        }
    }

    // The matrix behind this position, and what the query reads in it.
    static void write(const float* before, float* after, const float* q, const float* k, const float* kept, const float* u, int64_t keys,
                      int64_t wide, float* y) {
        constexpr int MANY = 4;
        for (int64_t d = 0; d < wide; d += MANY * STRIP) {
            Floats sum[MANY]{}, added[MANY];
            int n[MANY];
            for (int j = 0; j < MANY; j++) {
                n[j] = int(std::max<int64_t>(0, std::min<int64_t>(STRIP, wide - d - j * STRIP)));
                added[j] = n[j] ? load_some(u + d + j * STRIP, n[j]) : Floats{};
            }
            for (int64_t i = 0; i < keys; i++)
                for (int j = 0; j < MANY && n[j]; j++) {
                    const int64_t place = i * wide + d + j * STRIP;
                    const Floats s = kept[i] * load_some(before + place, n[j]) + k[i] * added[j];
                    store_some(after + place, s, n[j]);
                    sum[j] += q[i] * s;
                }
            for (int j = 0; j < MANY && n[j]; j++) store(y + d + j * STRIP, sum[j]);
        }
    }

    void position(const Operation& o) const {
        vectors(o.x.width, [&](int64_t row, int64_t d, int n) {
            const int64_t place = std::min(place_of(row), o.n[0] - 1);
            const Floats shift = load_some((const T*)o.p[0] + place * o.x.width + d, n);
            store_some(at(o.out, row) + d, shift + load_some(at(o.x, row) + d, n) * o.f[0], n);
        });
    }

    void operator()(const Operation& o) const {
        const int64_t wide = o.out.width;
        const size_t bytes = size_t(wide) * sizeof(T);
        switch (o.kind) {
            case EMBED:
                return rows([&](int64_t row) { std::memcpy(at(o.out, row), (const T*)o.p[0] + f.words[row] * wide, bytes); });
            case POSITION: return position(o);
            case NORM:
                return rows([&](int64_t row) {
                    const auto *gain = (const T*)o.p[0], *shift = (const T*)o.p[1];
                    norm_up_to(f.rows - row, at(o.x, row), o.x.next, wide, gain, shift, o.f[0], at(o.out, row), o.out.next);
                }, 4);
            case ROOT_NORM:  // n: the width that a mean is over
                return rows([&](int64_t row) {
                    for (int64_t d = 0; d < wide; d += o.n[0])
                        root_norm_row(at(o.x, row) + d, o.n[0], o.p[0] ? (const T*)o.p[0] + d : nullptr, o.f[0], at(o.out, row) + d);
                });
            case TURN: return turn(o);
            case NOT_FIRST:
                return rows([&](int64_t row) {
                    if (f.visible == 1) std::memset((void*)at(o.out, row), 0, bytes);
                    else std::memcpy(at(o.out, row), at(o.x, row), bytes);
                });
            case REAL_GATED: return real_gated(o);
            case MATRIX: return matrix(o);
            case PRODUCT:
                if (o.n[0] == 1) return multiply<int8_t>(o);
                if (o.n[0] == 2) return multiply<Half>(o);
                if constexpr (sizeof(T) == 4) return multiply<float>(o);
                return;
            case ATTEND: return attend_to(o, false);
            case ATTEND_NEAR: return attend_near(o);
            case ATTEND_SOURCE: return attend_to(o, true);
            case ATTEND_SELF: return attend_self(o);
            case ATTEND_MLP: return attend_mlp(o);
            case ATTEND_LOCATION: return attend_location(o);
            case FLIP: return flip(o);
            case GATHER:
                return rows([&](int64_t row) { std::memcpy(at(o.out, row), at(o.x, f.starts[row] + f.visible - 1), bytes); });
            case SCATTER:
                return rows([&](int64_t row) { std::memcpy(at(o.out, f.starts[row] + f.visible - 1), at(o.x, row), bytes); });
            case ACT:
                return vectors(wide, [&](int64_t row, int64_t d, int n) {
                    store_some(at(o.out, row) + d, activated(o.n[0], load_some(at(o.x, row) + d, n)), n);
                });
            case JOIN:
                return vectors(wide, [&](int64_t row, int64_t d, int n) {
                    const Floats x = load_some(at(o.x, row) + d, n), y = load_some(at(o.y, row) + d, n);
                    store_some(at(o.out, row) + d, o.n[0] == ADD ? x + y : x * y, n);
                });
            case SCALE:  // p: a factor of each number; else f is that of all
                return vectors(wide, [&](int64_t row, int64_t d, int n) {
                    const Floats factor = o.p[0] ? load_some((const T*)o.p[0] + d, n) : all(o.f[0]);
                    store_some(at(o.out, row) + d, factor * load_some(at(o.x, row) + d, n), n);
                });
            case MIX:  // x: the share of y, between it and z
                return vectors(wide, [&](int64_t row, int64_t d, int n) {
                    const Floats y = load_some(at(o.y, row) + d, n), z = load_some(at(o.z, row) + d, n);
                    store_some(at(o.out, row) + d, z + load_some(at(o.x, row) + d, n) * (y - z), n);
                });
            case GLU:
                return vectors(wide, [&](int64_t row, int64_t d, int n) {
                    const Floats gate = as<T>(sigmoid(load_some(at(o.x, row) + wide + d, n)));
                    store_some(at(o.out, row) + d, load_some(at(o.x, row) + d, n) * gate, n);
                });
            case COPY: return rows([&](int64_t row) { std::memcpy(at(o.out, row), at(o.x, row), bytes); });
            case READ: return rows([&](int64_t row) { std::memcpy(at(o.out, row), left_for(o.n[0], row), bytes); });
            case WRITE:
                return rows([&](int64_t row) { std::memcpy(row_of(o.n[0], row), at(o.x, row), size_t(o.x.width) * sizeof(T)); });
            case AVERAGE:
                return scan(o, [&](int64_t row, int64_t d, int n, Floats& h) {
                    h += load_some(at(o.x, row) + d, n);
                    return h / float(f.visible);
                });
            case GATED:  // x: what the gate says; y: the input; f: of what is kept a constant, and what a gate of one adds
                return scan(o, [&](int64_t row, int64_t d, int n, Floats& h) {
                    const Floats keep = o.f[0] + o.f[1] * sigmoid(load_some(at(o.x, row) + d, n)), made = load_some(at(o.y, row) + d, n);
                    h = made + keep * (h - made);
                    return activated(o.n[2], h);
                });
            case LSTM: return lstm(o);
            case GRU: return gru(o);
            case WINDOW: return window(o);
            case BAND: return band(o);
            case NEIGHBOURS: return neighbours(o);
            case BAND_SELF: return band_self(o);
            case FORESEEN:
                return rows([&](int64_t row) {
                    const Bound& seen = f.bound[o.n[0]];
                    const T* from = (const T*)seen.data + sentence_of(row) * seen.next[0] + (f.visible - 1) * seen.next[1];
                    std::memcpy(at(o.out, row), from, bytes);
                });
        }
    }
};

template <class T>
void run(const Operation* operations, int64_t count, const Frame& f);

// Of an encoder: operations at the first position of every sentence, then at the second of those that have one, and so on. Longer
// sentences come first; the rows of these operations are sentences.
template <class T>
void sweep(const Operation* operations, int64_t count, const Frame& whole) {
    Frame f = whole;
    f.beams = 1, f.positions = nullptr, f.rows = whole.sentences;
    for (f.visible = 1;; f.visible++) {
        while (f.rows && f.starts[f.rows] - f.starts[f.rows - 1] < f.visible) f.rows--;
        if (!f.rows) return;
        run<T>(operations, count, f);
    }
}

template <class T>
void run(const Operation* operations, int64_t count, const Frame& f) {
    for (int64_t i = 0; i < count; i++)
        if (operations[i].kind == SWEEP) {
            const int64_t many = operations[i].n[0];
            sweep<T>(operations + i + 1, many, f);
            i += many;
        } else Run<T>{f}(operations[i]);
}

}  // namespace

// 1 where the number of a word is not of its vocabulary; nothing is computed then.
extern "C" int calque_run(const Operation* operations, int64_t count, const Frame* frame, int type) {
    for (int64_t i = 0; i < count; i++)
        for (int64_t row = 0; operations[i].kind == EMBED && row < frame->rows; row++)
            if (uint64_t(frame->words[row]) >= uint64_t(operations[i].n[0])) return 1;
    type == 4 ? run<float>(operations, count, *frame) : run<Half>(operations, count, *frame);
    return 0;
}
