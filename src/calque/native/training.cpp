// Passes of training that would be many over memory: dropout, layer norm, attention over short sentences and the loss of an output
// layer, each with its gradient. Products with matrices are not among them.
//
// Sums are float32. Each number's sum is taken in one order; gradients that are sums over rows are added up by thread.

#include <vector>

#include "dropout.h"
#include "vectors.h"

namespace {

// ---------------------------------------------------------------------------------------------------------------------
// Dropout, perhaps of max(0, x).

constexpr int64_t PER = 32;  // numbers of one hash

// y = x factor; with `relu` of max(0, x). `y` may be x.
template <class T>
void drop(const T* x, int64_t count, const Dropout& dropout, bool relu, T* y, int threads) {
    const int64_t groups = (count + PER - 1) / PER;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t g = 0; g < groups; g++) {
        const int64_t i = g * PER, rest = count - i;
        Floats factor[PER / STRIP];
        dropout.factors(i, factor);
        for (int64_t k = 0; k < std::min(PER, rest); k += STRIP) {
            Floats a = load_some(x + i + k, int(std::min<int64_t>(STRIP, rest - k)));
            if (relu) a = a < 0 ? Floats{} : a;  // what is no number stays
            store_some(y + i + k, a * factor[k / STRIP], int(std::min<int64_t>(STRIP, rest - k)));
        }
    }
}

// d_x = g scale where y, the result of `drop` with `relu`, is positive.
template <class T>
void drop_relu_back(const T* g, const T* y, int64_t count, float scale, T* d_x, int threads) {
    const int64_t groups = (count + STRIP - 1) / STRIP;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < groups; i++) {
        const int n = int(std::min<int64_t>(STRIP, count - i * STRIP));
        const Floats seen = load_some(y + i * STRIP, n);
        store_some(d_x + i * STRIP, seen > 0 ? load_some(g + i * STRIP, n) * scale : Floats{}, n);
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Layer norm: y = gain (x - mean) / sqrt(var + epsilon) + shift; `kept` [rows][2] has mean and 1 / sqrt(var + epsilon).

template <class T>
void norm(const T* x, int64_t rows, int64_t width, const T* gain, const T* shift, float epsilon, T* y, float* kept, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        const T* in = x + row * width;
        Floats sum{}, squares{};
        for (int64_t d = 0; d < width; d += STRIP) sum += load_some(in + d, int(width - d));
        const float mean = sum_of(sum) / width;
        for (int64_t d = 0; d < width; d += STRIP) {
            const Floats apart = load_some(in + d, int(width - d), mean) - mean;
            squares += apart * apart;
        }
        const float scale = 1.0f / std::sqrt(sum_of(squares) / width + epsilon);
        kept[row * 2] = mean, kept[row * 2 + 1] = scale;
        for (int64_t d = 0; d < width; d += STRIP) {
            const int n = int(width - d);
            const Floats z = (load_some(in + d, n) - mean) * scale;
            store_some(y + row * width + d, z * load_some(gain + d, n) + load_some(shift + d, n), n);
        }
    }
}

// With z the normalised row and h = g gain: d_x = scale (h - mean(h) - z mean(h z)); d_gain = sum g z, d_shift = sum g.
template <class T>
void norm_back(const T* g, const T* x, const float* kept, int64_t rows, int64_t width, const T* gain, T* d_x, T* d_gain, T* d_shift,
               int threads) {
    const int64_t padded = (width + STRIP - 1) / STRIP * STRIP;
    std::vector<float> sums(size_t(threads) * padded * 2, 0.0f);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        float *gains = sums.data() + part * padded * 2, *shifts = gains + padded;
        for (int64_t row = rows * part / threads; row < rows * (part + 1) / threads; row++) {
            const float mean = kept[row * 2], scale = kept[row * 2 + 1];
            Floats sum{}, with{};
            for (int64_t d = 0; d < width; d += STRIP) {
                const int n = int(width - d);
                const Floats each = load_some(g + row * width + d, n), h = each * load_some(gain + d, n);
                const Floats z = (load_some(x + row * width + d, n, mean) - mean) * scale;
                sum += h;
                with += h * z;
                store(gains + d, load(gains + d) + each * z);
                store(shifts + d, load(shifts + d) + each);
            }
            const float first = sum_of(sum) / width, second = sum_of(with) / width;
            for (int64_t d = 0; d < width; d += STRIP) {
                const int n = int(width - d);
                const Floats h = load_some(g + row * width + d, n) * load_some(gain + d, n);
                const Floats z = (load_some(x + row * width + d, n) - mean) * scale;
                store_some(d_x + row * width + d, (h - first - z * second) * scale, n);
            }
        }
    }
    for (int64_t d = 0; d < width; d += STRIP) {
        Floats gains{}, shifts{};
        for (int part = 0; part < threads; part++) {
            gains += load(sums.data() + part * padded * 2 + d);
            shifts += load(sums.data() + part * padded * 2 + padded + d);
        }
        store_some(d_gain + d, gains, int(width - d));
        store_some(d_shift + d, shifts, int(width - d));
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Attention of the positions of a sentence to those of the same or another one, head by head.

// c [m][n] = a b, or added to it: a[i][k] = a[i * by_row + k * by_term]; n and the rows of b are whole vectors.
template <int R, int C>
inline void small_block(const float* a, int64_t by_row, int64_t by_term, const float* b, int64_t next, int64_t terms, float* c,
                        int64_t out) {
    Floats s[R][C]{};
    for (int64_t k = 0; k < terms; k++) {
        Floats line[C];
        for (int j = 0; j < C; j++) line[j] = load(b + k * next + j * STRIP);
#pragma GCC unroll 8
        for (int i = 0; i < R; i++) {
            const float x = a[i * by_row + k * by_term];
            for (int j = 0; j < C; j++) s[i][j] += line[j] * x;
        }
    }
    for (int i = 0; i < R; i++)
        for (int j = 0; j < C; j++) store(c + i * out + j * STRIP, s[i][j]);
}

template <int C>
inline void small_rows(const float* a, int64_t by_row, int64_t by_term, const float* b, int64_t next, int64_t rows, int64_t terms,
                       float* c, int64_t out) {
    int64_t i = 0;
    if (C == 1)
        for (; i + 8 <= rows; i += 8) small_block<8, C>(a + i * by_row, by_row, by_term, b, next, terms, c + i * out, out);
    for (; i + 4 <= rows; i += 4) small_block<4, C>(a + i * by_row, by_row, by_term, b, next, terms, c + i * out, out);
    for (; i < rows; i++) small_block<1, C>(a + i * by_row, by_row, by_term, b, next, terms, c + i * out, out);
}

inline void small_product(const float* a, int64_t by_row, int64_t by_term, const float* b, int64_t next, int64_t rows, int64_t columns,
                          int64_t terms, float* c, int64_t out) {
    constexpr int MANY = STRIP / 4;  // sums of four rows of so many vectors stay in registers
    int64_t j = 0;
    for (; j + MANY * STRIP <= columns; j += MANY * STRIP) small_rows<MANY>(a, by_row, by_term, b + j, next, rows, terms, c + j, out);
    for (; j < columns; j += STRIP) small_rows<1>(a, by_row, by_term, b + j, next, rows, terms, c + j, out);
}

struct Attention {
    int64_t sentences, heads, group, queries, keys, width, value_width;
    int64_t q_next, k_next, v_next;  // numbers from a position to the next; the heads of a position lie together
    int64_t before, behind;  // a query sees that many positions on either side of its own
    float scale;
    const uint8_t* real;  // [sentences][keys], a row of ones and then zeros; none: all are
};

inline int64_t whole(int64_t n) { return (n + STRIP - 1) / STRIP * STRIP; }

// Of one head: its numbers in float32, rows of whole vectors with zeros behind. Weights and their gradients are [keys][queries], so
// that a softmax goes over vectors, not within them.
struct Head {
    std::vector<float> space;
    int64_t queries, keys, width, value_width, wide;
    float *q, *k, *v, *turned, *p, *context, *d_p, *d_q, *d_k, *d_v, *d_context;

    explicit Head(const Attention& a)
        : queries(a.queries), keys(a.keys), width(whole(a.width)), value_width(whole(a.value_width)), wide(whole(a.queries)) {
        const int64_t sizes[] = {queries * width, keys * width, keys * value_width, std::max(width, value_width) * wide, keys * wide,
                                 queries * value_width, keys * wide, queries * width, keys * width, keys * value_width,
                                 queries * value_width};
        float** const places[] = {&q, &k, &v, &turned, &p, &context, &d_p, &d_q, &d_k, &d_v, &d_context};
        int64_t total = 16;
        for (int64_t size : sizes) total += size;
        space.assign(total, 0.0f);
        float* at = (float*)((uintptr_t(space.data()) + 63) & ~uintptr_t(63));
        for (int i = 0; i < 11; at += sizes[i++]) *places[i] = at;
    }
};

template <class T>
inline void read(const T* from, int64_t next, int64_t rows, int64_t width, float* to, float scale = 1) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < width; d += STRIP) store(to + i * whole(width) + d, load_some(from + i * next + d, int(width - d)) * scale);
}

template <class T>
inline void write(const float* from, int64_t rows, int64_t width, T* to, int64_t next, float scale = 1) {
    for (int64_t i = 0; i < rows; i++)
        for (int64_t d = 0; d < width; d += STRIP) store_some(to + i * next + d, load(from + i * whole(width) + d) * scale, int(width - d));
}

// Rows of whole vectors become columns.
inline void turn(const float* from, int64_t rows, int64_t width, float* to, int64_t next) {
    for (int64_t i = 0; i < rows; i += STRIP)
        for (int64_t d = 0; d < width; d += STRIP) {
            Floats square[STRIP];
            for (int64_t k = 0; k < STRIP; k++) square[k] = i + k < rows ? load(from + (i + k) * width + d) : Floats{};
            transpose(square);
            for (int64_t k = 0; k < STRIP; k++) store(to + (d + k) * next + i, square[k]);
        }
}

// How many keys the queries of a sentence may see, all of them together.
inline int64_t seen(const Attention& a, int64_t sentence) {
    if (!a.real) return a.keys;
    int64_t n = 0;
    for (int64_t s = 0; s < a.keys; s++) n += a.real[sentence * a.keys + s];
    return n;
}

// The weights of the first `real` keys of a head, p [real][wide]. Nothing is real: each key of all has the same. A query that sees
// none of those that are has no weights.
inline void weigh(const Attention& a, const Head& h, int64_t real) {
    if (!real) return std::fill(h.p, h.p + a.keys * h.wide, 1.0f / float(a.keys));
    small_product(h.k, h.width, 1, h.turned, h.wide, real, h.wide, a.width, h.p, h.wide);
    for (int64_t t = 0; t < h.wide; t += STRIP) {
        const Ints query = LANES + int32_t(t);
        const auto apart = [&](int64_t s) { return s > t + a.behind || s < t + STRIP - 1 - a.before; };  // for one of the queries
        Floats high = all(NOTHING), sum{};
        for (int64_t s = 0; s < real; s++) {
            Floats x = load(h.p + s * h.wide + t);
            if (apart(s)) {
                x = (query < int32_t(s - a.behind)) | (query > int32_t(s + a.before)) ? all(NOTHING) : x;
                store(h.p + s * h.wide + t, x);
            }
            high = largest(high, x);
        }
        for (int64_t s = 0; s < real; s++) {
            const Floats x = load(h.p + s * h.wide + t);
            Floats e = exp_of(x - high);
            if (apart(s)) e = x == NOTHING ? Floats{} : e;
            store(h.p + s * h.wide + t, e);
            sum += e;
        }
        const Floats share = sum > 0.0f ? 1.0f / sum : sum;
        for (int64_t s = 0; s < real; s++) store(h.p + s * h.wide + t, load(h.p + s * h.wide + t) * share);
    }
}

template <class T>
void attend_head(const Attention& a, Head& h, const T* q, const T* k, const T* v, int64_t sentence, int64_t head, int64_t real) {
    const int64_t shared = head / a.group;
    read(q + sentence * a.queries * a.q_next + head * a.width, a.q_next, a.queries, a.width, h.q, a.scale);
    read(k + sentence * a.keys * a.k_next + shared * a.width, a.k_next, a.keys, a.width, h.k);
    read(v + sentence * a.keys * a.v_next + shared * a.value_width, a.v_next, a.keys, a.value_width, h.v);
    turn(h.q, a.queries, h.width, h.turned, h.wide);
    weigh(a, h, real);
}

template <class T>
void attend(const Attention& a, const T* q, const T* k, const T* v, T* out, int threads) {
    const int64_t next = a.heads * a.value_width;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        Head h(a);
        for (int64_t b = a.sentences * part / threads; b < a.sentences * (part + 1) / threads; b++) {
            const int64_t real = seen(a, b), some = real ? real : a.keys;
            for (int64_t head = 0; head < a.heads; head++) {
                attend_head(a, h, q, k, v, b, head, real);
                small_product(h.p, 1, h.wide, h.v, h.value_width, a.queries, h.value_width, some, h.context, h.value_width);
                write(h.context, a.queries, a.value_width, out + b * a.queries * next + head * a.value_width, next);
            }
        }
    }
}

// With P the weights and G the gradient of P V: d_v = P^T G, d_p = G V^T, d_s = P (d_p - sum P d_p), d_q = d_s K, d_k = d_s^T Q.
// Gradients have the strides of q, k and v, and each place of them is written once.
template <class T>
void attend_back(const Attention& a, const T* q, const T* k, const T* v, const T* g, T* d_q, T* d_k, T* d_v, int threads) {
    const int64_t next = a.heads * a.value_width;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        Head h(a);
        std::vector<float> keys(a.group > 1 ? a.keys * h.width : 0), values(a.group > 1 ? a.keys * h.value_width : 0);
        for (int64_t b = a.sentences * part / threads; b < a.sentences * (part + 1) / threads; b++) {
            const int64_t real = seen(a, b), some = real ? real : a.keys;
            for (int64_t head = 0; head < a.heads; head++) {
                attend_head(a, h, q, k, v, b, head, real);
                read(g + b * a.queries * next + head * a.value_width, next, a.queries, a.value_width, h.d_context);
                small_product(h.p, h.wide, 1, h.d_context, h.value_width, some, h.value_width, a.queries, h.d_v, h.value_width);
                turn(h.d_context, a.queries, h.value_width, h.turned, h.wide);
                small_product(h.v, h.value_width, 1, h.turned, h.wide, some, h.wide, a.value_width, h.d_p, h.wide);
                for (int64_t t = 0; t < h.wide; t += STRIP) {
                    Floats mean{};
                    for (int64_t s = t; s < some * h.wide; s += h.wide) mean += load(h.p + s) * load(h.d_p + s);
                    // Where nothing is seen, weights do not depend on scores.
                    for (int64_t s = t; s < some * h.wide; s += h.wide)
                        store(h.d_p + s, real ? load(h.p + s) * (load(h.d_p + s) - mean) : Floats{});
                }
                small_product(h.d_p, 1, h.wide, h.k, h.width, a.queries, h.width, some, h.d_q, h.width);
                small_product(h.d_p, h.wide, 1, h.q, h.width, some, h.width, a.queries, h.d_k, h.width);
                std::fill(h.d_k + some * h.width, h.d_k + a.keys * h.width, 0.0f);
                std::fill(h.d_v + some * h.value_width, h.d_v + a.keys * h.value_width, 0.0f);
                write(h.d_q, a.queries, a.width, d_q + b * a.queries * a.q_next + head * a.width, a.q_next, a.scale);
                if (a.group > 1) {  // heads that share keys and values add their gradients up
                    const bool first = head % a.group == 0;
                    for (size_t i = 0; i < keys.size(); i++) keys[i] = (first ? 0 : keys[i]) + h.d_k[i];
                    for (size_t i = 0; i < values.size(); i++) values[i] = (first ? 0 : values[i]) + h.d_v[i];
                    if ((head + 1) % a.group) continue;
                }
                const float *from_k = a.group > 1 ? keys.data() : h.d_k, *from_v = a.group > 1 ? values.data() : h.d_v;
                const int64_t shared = head / a.group;
                write(from_k, a.keys, a.width, d_k + b * a.keys * a.k_next + shared * a.width, a.k_next);
                write(from_v, a.keys, a.value_width, d_v + b * a.keys * a.v_next + shared * a.value_width, a.v_next);
            }
        }
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// Additive scores, s_ij = w^T tanh(q_i + k_j), without the tensor of all tanh: they are made again for the gradients.

struct Additive {
    int64_t sentences, queries, keys, width;
};

// A sentence's keys and a query in float32, rows of whole vectors with zeros behind; behind them the weights.
struct AdditiveRows {
    int64_t wide;
    std::vector<float> keys, query, weights;

    template <class T>
    AdditiveRows(const Additive& a, const T* w) : wide(whole(a.width)), keys(a.keys * wide), query(wide), weights(wide) {
        read(w, a.width, 1, a.width, weights.data());
    }
};

template <class T>
void additive(const Additive& a, const T* q, const T* k, const T* w, T* scores, int threads) {
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        AdditiveRows r(a, w);
        for (int64_t b = a.sentences * part / threads; b < a.sentences * (part + 1) / threads; b++) {
            read(k + b * a.keys * a.width, a.width, a.keys, a.width, r.keys.data());
            for (int64_t i = b * a.queries; i < (b + 1) * a.queries; i++) {
                read(q + i * a.width, a.width, 1, a.width, r.query.data());
                for (int64_t j = 0; j < a.keys; j++) {
                    Floats sum{};
                    for (int64_t d = 0; d < r.wide; d += STRIP)
                        sum += load(&r.weights[d]) * tanh_of(load(&r.query[d]) + load(&r.keys[j * r.wide + d]));
                    put(scores + i * a.keys + j, sum_of(sum));
                }
            }
        }
    }
}

// With g the gradient of the scores and h_ij the tanh: e_ij = g_ij w (1 - h_ij^2), d_q_i = sum_j e_ij, d_k_j = sum_i e_ij, and
// d_w = sum_ij g_ij h_ij.
template <class T>
void additive_back(const Additive& a, const T* q, const T* k, const T* w, const T* g, T* d_q, T* d_k, T* d_w, int threads) {
    const int64_t wide = whole(a.width);
    std::vector<float> of_weights(threads * wide, 0.0f);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        AdditiveRows r(a, w);
        std::vector<float> d_keys(a.keys * wide), d_query(wide);
        float* d_weights = &of_weights[part * wide];
        for (int64_t b = a.sentences * part / threads; b < a.sentences * (part + 1) / threads; b++) {
            read(k + b * a.keys * a.width, a.width, a.keys, a.width, r.keys.data());
            std::fill(d_keys.begin(), d_keys.end(), 0.0f);
            for (int64_t i = b * a.queries; i < (b + 1) * a.queries; i++) {
                read(q + i * a.width, a.width, 1, a.width, r.query.data());
                for (int64_t d = 0; d < wide; d += STRIP) {
                    const Floats query = load(&r.query[d]), weight = load(&r.weights[d]);
                    Floats of_query{}, of_weight = load(d_weights + d);
                    for (int64_t j = 0; j < a.keys; j++) {
                        const float back = one(g + i * a.keys + j);
                        if (back == 0) continue;  // padding, mostly
                        const Floats h = tanh_of(query + load(&r.keys[j * wide + d])), e = back * (1.0f - h * h) * weight;
                        of_query += e;
                        of_weight += back * h;
                        store(&d_keys[j * wide + d], load(&d_keys[j * wide + d]) + e);
                    }
                    store(&d_query[d], of_query);
                    store(d_weights + d, of_weight);
                }
                write(d_query.data(), 1, a.width, d_q + i * a.width, a.width);
            }
            write(d_keys.data(), a.keys, a.width, d_k + b * a.keys * a.width, a.width);
        }
    }
    for (int part = 1; part < threads; part++)
        for (int64_t d = 0; d < wide; d++) of_weights[d] += of_weights[part * wide + d];
    write(of_weights.data(), 1, a.width, d_w, a.width);
}

// ---------------------------------------------------------------------------------------------------------------------
// The cell of an LSTM: [i; f; g; o] = a + p, c' = sig(f + forget) c + sig(i) tanh(g), h = sig(o) tanh(c').

struct Lstm {
    int64_t rows, width, driven_next;  // numbers from a row of `driven` to the next
    float forget;
};

// `gates` [rows][4 width]: i, f, g and o behind their functions, for the gradient.
template <class T>
void lstm(const Lstm& a, const T* driven, const T* pushed, const float* c, T* h, float* next, T* gates, int threads) {
    const int64_t w = a.width;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < a.rows; row++) {
        const T *x = driven + row * a.driven_next, *p = pushed + row * 4 * w;
        for (int64_t d = 0; d < w; d += STRIP) {
            const int n = int(w - d);
            auto sum = [&](int64_t k) { return load_some(x + k * w + d, n) + load_some(p + k * w + d, n); };
            const Floats i = sigmoid(sum(0)), f = sigmoid(sum(1) + a.forget), g = tanh_of(sum(2)), o = sigmoid(sum(3));
            const Floats now = f * load_some(c + row * w + d, n) + i * g;
            store_some(next + row * w + d, now, n);
            store_some(h + row * w + d, o * tanh_of(now), n);
            T* to = gates + row * 4 * w + d;
            store_some(to, i, n);
            store_some(to + w, f, n);
            store_some(to + 2 * w, g, n);
            store_some(to + 3 * w, o, n);
        }
    }
}

// d_a [rows][4 width] is the gradient of a and of p, d_c that of c; either gradient that comes in may be missing.
template <class T>
void lstm_back(const Lstm& a, const T* d_h, const float* d_next, const float* c, const float* next, const T* gates, T* d_a, float* d_c,
               int threads) {
    const int64_t w = a.width;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t row = 0; row < a.rows; row++)
        for (int64_t d = 0; d < w; d += STRIP) {
            const int n = int(w - d);
            const T* from = gates + row * 4 * w + d;
            const Floats i = load_some(from, n), f = load_some(from + w, n), g = load_some(from + 2 * w, n), o = load_some(from + 3 * w, n);
            const Floats seen = tanh_of(load_some(next + row * w + d, n)), e = d_h ? load_some(d_h + row * w + d, n) : Floats{};
            const Floats m = (d_next ? load_some(d_next + row * w + d, n) : Floats{}) + e * o * (1.0f - seen * seen);
            T* to = d_a + row * 4 * w + d;
            store_some(to, m * g * i * (1.0f - i), n);
            store_some(to + w, m * load_some(c + row * w + d, n) * f * (1.0f - f), n);
            store_some(to + 2 * w, m * i * (1.0f - g * g), n);
            store_some(to + 3 * w, e * seen * o * (1.0f - o), n);
            store_some(d_c + row * w + d, m * f, n);
        }
}

// ---------------------------------------------------------------------------------------------------------------------
// Rows of logits, `next` numbers apart, become dL/dlogits = p - q, q the smoothed distribution; sums[0] += -log p of the targets, sums[1] += of all words.
// With `r_drop` rows come in pairs, whose gradients are halved and drawn to each other; sums[2] += their divergences.

// The exponentials of a row of logits less the largest of them.
struct Row {
    std::vector<float> e;
    float sum, log_norm, truth;
    double plain;

    explicit Row(int64_t padded) : e(padded) {}

    template <class T>
    void read(const T* row, int64_t words, const float* bias, int64_t target) {
        Floats high = all(NOTHING), all_of{};
        for (int64_t w = 0; w < words; w += STRIP) {
            const int n = int(words - w);
            Floats x = load_some(row + w, n);
            if (bias) x += load_some(bias + w, n);
            all_of += x;
            if (n < STRIP)
                for (int k = n; k < STRIP; k++) x[k] = NOTHING;
            store(e.data() + w, x);
            high = largest(high, x);
        }
        log_norm = max_of(high), truth = e[target], plain = sum_of(all_of);
    }

    void raise(int64_t words) {
        Floats all_of{};
        const float highest = log_norm;
        for (int64_t w = 0; w < int64_t(e.size()); w += STRIP) {
            const Floats x = load(e.data() + w), p = exp_of(x - highest);
            store(e.data() + w, w + STRIP <= words ? p : (x == NOTHING ? Floats{} : p));
            all_of += load(e.data() + w);
        }
        sum = sum_of(all_of), log_norm = highest + std::log(sum);
    }

    // Writes scale e - share, after e is `truth` more at the target.
    template <class T>
    void write(T* row, int64_t words, int64_t target, float scale, float share, float truth, float* d_bias) {
        e[target] += truth;
        for (int64_t w = 0; w < words; w += STRIP) {
            const Floats g = load(e.data() + w) * scale - share;
            store_some(row + w, g, int(words - w));
            if (d_bias) store(d_bias + w, load(d_bias + w) + g);
        }
    }
};

// The divergence of p from q and back; with `needs` e becomes p + pull (d/dlogits of both) / (r_drop / 2), see `calque.train.loss`.
inline double draw_together(Row& one, Row& other, const std::vector<float>& further, float r_drop, bool needs) {
    const float p_scale = 1.0f / one.sum, q_scale = 1.0f / other.sum, apart = one.log_norm - other.log_norm;
    Floats there{}, back{};
    for (size_t w = 0; w < further.size(); w += STRIP) {
        const Floats r = load(further.data() + w) - apart;
        there += load(one.e.data() + w) * p_scale * r;
        back -= load(other.e.data() + w) * q_scale * r;
    }
    const float p_kl = sum_of(there), q_kl = sum_of(back), weight = r_drop / 2;
    for (size_t w = 0; needs && w < further.size(); w += STRIP) {
        const Floats r = load(further.data() + w) - apart, p = load(one.e.data() + w) * p_scale, q = load(other.e.data() + w) * q_scale;
        store(one.e.data() + w, p + weight * (p * (r - p_kl) + p - q));
        store(other.e.data() + w, q + weight * (q * (-r - q_kl) + q - p));
    }
    return double(p_kl) + q_kl;
}

template <class T>
void loss(T* logits, const int64_t* target, int64_t rows, int64_t words, int64_t next, const float* bias, float smoothing, float r_drop,
          bool needs, float* d_bias, double* sums, int threads) {
    const float share = smoothing ? smoothing / float(words - 1) : 0.0f;
    const int64_t padded = whole(words), group = r_drop ? 2 : 1, groups = rows / group;
    std::vector<double> found(threads * 3, 0.0);
    std::vector<float> gradients(d_bias ? threads * padded : 0, 0.0f);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        Row each[2] = {Row(padded), Row(r_drop ? padded : 0)};
        std::vector<float> further(r_drop ? padded : 0);
        float* mine = d_bias ? gradients.data() + part * padded : nullptr;
        double* own = found.data() + 3 * part;
        for (int64_t i = groups * part / threads * group; i < groups * (part + 1) / threads * group; i += group) {
            for (int k = 0; k < group; k++) each[k].read(logits + (i + k) * next, words, bias, target[i + k]);
            for (size_t w = 0; w < further.size(); w += STRIP) {
                const Floats x = load(each[0].e.data() + w);
                store(further.data() + w, x == NOTHING ? Floats{} : x - load(each[1].e.data() + w));
            }
            for (int k = 0; k < group; k++) {
                each[k].raise(words);
                own[0] += each[k].log_norm - each[k].truth;
                own[1] += double(words) * each[k].log_norm - each[k].plain;
            }
            if (r_drop) own[2] += draw_together(each[0], each[1], further, r_drop, needs);
            for (int k = 0; needs && k < group; k++) {
                const float unit = r_drop ? 1.0f : each[k].sum, half = r_drop ? 0.5f : 1.0f;  // e is of the sum of `unit`
                each[k].write(logits + (i + k) * next, words, target[i + k], half / unit, share * half, (smoothing + share - 1) * unit, mine);
            }
        }
    }
    for (int part = 0; part < threads; part++) {
        for (int k = 0; k < 3; k++) sums[k] += found[3 * part + k];
        if (d_bias)
            for (int64_t w = 0; w < words; w++) d_bias[w] += gradients[part * padded + w];
    }
}

// ---------------------------------------------------------------------------------------------------------------------
// The optimiser.

template <class T>
double squares(const T* x, int64_t count, int threads) {
    std::vector<double> sums(threads, 0.0);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        const int64_t blocks = (count + 4095) / 4096;
        for (int64_t b = blocks * part / threads; b < blocks * (part + 1) / threads; b++) {
            Floats sum{};
            const int64_t last = std::min(count, (b + 1) * 4096);
            for (int64_t i = b * 4096; i < last; i += STRIP) {
                const Floats each = load_some(x + i, int(last - i));
                sum += each * each;
            }
            sums[part] += sum_of(sum);
        }
    }
    double total = 0;
    for (double sum : sums) total += sum;
    return total;
}

struct Adam {
    float divisor;  // of the gradient
    float beta1, beta2, rate, root, epsilon, kept;
    // m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2; w = kept w - rate m / (sqrt(v) / root + epsilon)
};

template <class G, class W>
void adam(const Adam& a, float* weights, const G* gradient, float* first, float* second, W* rounded, int64_t count, int threads) {
    const int64_t blocks = (count + 4095) / 4096;
    const float scale = 1.0f / a.divisor, per_root = 1.0f / a.root;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t last = std::min(count, (b + 1) * 4096);
        for (int64_t i = b * 4096; i < last; i += STRIP) {
            const int n = int(last - i);
            const Floats g = load_some(gradient + i, n) * scale;
            const Floats m = load_some(first + i, n) * a.beta1 + g * (1 - a.beta1);
            const Floats v = load_some(second + i, n) * a.beta2 + g * g * (1 - a.beta2);
            const Floats w = load_some(weights + i, n) * a.kept - m * a.rate / (root_of(v) * per_root + a.epsilon);
            store_some(first + i, m, n);
            store_some(second + i, v, n);
            store_some(weights + i, w, n);
            if (rounded) store_some(rounded + i, w, n);
        }
    }
}

}  // namespace

extern "C" {

#define BY_TYPE(CALL) \
    if (type == 4) CALL(float); else CALL(Half)

void calque_drop(const void* x, int type, int64_t count, uint64_t seed, int64_t dropped, int relu, void* y, int threads) {
#define DROP(T) drop((const T*)x, count, Dropout(seed, dropped), relu != 0, (T*)y, threads)
    BY_TYPE(DROP);
}

void calque_drop_relu_back(const void* g, const void* y, int type, int64_t count, float scale, void* d_x, int threads) {
#define BACK(T) drop_relu_back((const T*)g, (const T*)y, count, scale, (T*)d_x, threads)
    BY_TYPE(BACK);
}

void calque_training_norm(const void* x, int type, int64_t rows, int64_t width, const void* gain, const void* shift, float epsilon,
                          void* y, float* kept, int threads) {
#define NORM(T) norm((const T*)x, rows, width, (const T*)gain, (const T*)shift, epsilon, (T*)y, kept, threads)
    BY_TYPE(NORM);
}

void calque_norm_back(const void* g, const void* x, const float* kept, int type, int64_t rows, int64_t width, const void* gain,
                      void* d_x, void* d_gain, void* d_shift, int threads) {
#define NORM_BACK(T) \
    norm_back((const T*)g, (const T*)x, kept, rows, width, (const T*)gain, (T*)d_x, (T*)d_gain, (T*)d_shift, threads)
    BY_TYPE(NORM_BACK);
}

void calque_training_attend(const Attention* a, int type, const void* q, const void* k, const void* v, void* out, int threads) {
#define ATTEND(T) attend(*a, (const T*)q, (const T*)k, (const T*)v, (T*)out, threads)
    BY_TYPE(ATTEND);
}

void calque_attend_back(const Attention* a, int type, const void* q, const void* k, const void* v, const void* g, void* d_q, void* d_k,
                        void* d_v, int threads) {
#define ATTEND_BACK(T) \
    attend_back(*a, (const T*)q, (const T*)k, (const T*)v, (const T*)g, (T*)d_q, (T*)d_k, (T*)d_v, threads)
    BY_TYPE(ATTEND_BACK);
}

void calque_additive(const Additive* a, int type, const void* q, const void* k, const void* w, void* scores, int threads) {
#define ADDITIVE(T) additive(*a, (const T*)q, (const T*)k, (const T*)w, (T*)scores, threads)
    BY_TYPE(ADDITIVE);
}

void calque_additive_back(const Additive* a, int type, const void* q, const void* k, const void* w, const void* g, void* d_q, void* d_k,
                          void* d_w, int threads) {
#define ADDITIVE_BACK(T) \
    additive_back(*a, (const T*)q, (const T*)k, (const T*)w, (const T*)g, (T*)d_q, (T*)d_k, (T*)d_w, threads)
    BY_TYPE(ADDITIVE_BACK);
}

void calque_lstm(const Lstm* a, int type, const void* driven, const void* pushed, const float* c, void* h, float* next, void* gates,
                 int threads) {
#define LSTM(T) lstm(*a, (const T*)driven, (const T*)pushed, c, (T*)h, next, (T*)gates, threads)
    BY_TYPE(LSTM);
}

void calque_lstm_back(const Lstm* a, int type, const void* d_h, const float* d_next, const float* c, const float* next,
                      const void* gates, void* d_a, float* d_c, int threads) {
#define LSTM_BACK(T) lstm_back(*a, (const T*)d_h, d_next, c, next, (const T*)gates, (T*)d_a, d_c, threads)
    BY_TYPE(LSTM_BACK);
}

void calque_loss(void* logits, int type, const int64_t* target, int64_t rows, int64_t words, int64_t next, const float* bias,
                 float smoothing, float r_drop, int needs, float* d_bias, double* sums, int threads) {
#define LOSS(T) loss((T*)logits, target, rows, words, next, bias, smoothing, r_drop, needs != 0, d_bias, sums, threads)
    BY_TYPE(LOSS);
}

double calque_squares(const void* x, int type, int64_t count, int threads) {
    return type == 4 ? squares((const float*)x, count, threads) : squares((const Half*)x, count, threads);
}

// type: bytes of a number of the gradient; `rounded`: the weights in bfloat16, or none.
void calque_adam(const Adam* a, float* weights, const void* gradient, int type, float* first, float* second, void* rounded,
                 int64_t count, int threads) {
#define ADAM(T) adam(*a, weights, (const T*)gradient, first, second, (Half*)rounded, count, threads)
    BY_TYPE(ADAM);
}
}
