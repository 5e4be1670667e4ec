// An update of a matrix by Muon: its mean gradient, made nearly orthogonal by products in bfloat16.
//
// Two of the three products of each step are symmetric: half of their sums are taken, the others are copies of them.

#include "training_tiles.h"

#if defined(__AVX512BF16__)

namespace {

struct Muon {
    float divisor;   // of the gradient
    float momentum;  // b = momentum b + (1 - momentum) g; u = momentum b + (1 - momentum) g
    float rate, kept;  // w = kept w - rate O
    float a, b, c;   // a step: x = a x + (b x x^T + c (x x^T)^2) x
};

constexpr int64_t LONG = 4096;  // numbers of a pass
thread_local Space first_space, second_space, gram_space, step_space;

// A symmetric matrix from its sums above the diagonal: scale * sums + more * what is at the same place of another one.
struct Mirrored {
    Half* data;
    int64_t size;
    const Half* other;
    float scale, more;

    void operator()(int64_t row, int64_t column, int64_t, const float* sums) const {
        for (int64_t half = 0; half < 2; half++)
            for (int64_t top = 0; top < 32; top += 16) {
                const int64_t from = (row + top) * size + column + half * 16;
                __m512i lines[16];
                for (int64_t r = 0; r < 16; r++) {
                    Floats x = load(sums + (half * 32 + top + r) * 16) * scale;
                    if (other) x += load(other + from + r * size) * more;
                    store(data + from + r * size, x);
                    lines[r] = (__m512i)x;
                }
                if (row == column) continue;
                transpose(lines);
                for (int64_t k = 0; k < 16; k++) store(data + (column + half * 16 + k) * size + row + top, (Floats)lines[k]);
            }
    }
};

// y = scale x + sums
struct Moved {
    Half* y;
    const Half* x;
    int64_t next;
    float scale;

    void operator()(int64_t row, int64_t column, int64_t, const float* sums) const {
        for (int64_t r = 0; r < SQUARE; r++) {
            const int64_t at = (row + r) * next + column;
            put_line(y + at, load(x + at) * scale + load(sums + r * 16), load(x + at + 16) * scale + load(sums + (32 + r) * 16), false);
        }
    }
};

// One step of x [rows][columns]; the Gram matrix is that of its shorter side.
void step(const Muon& how, const Half* x, int64_t rows, int64_t columns, Half* y, int threads) {
    const bool tall = rows > columns;
    const int64_t size = tall ? columns : rows, depth = tall ? rows : columns, deep = depth / 32;
    char *left = left_space.of(size_t(2) * rows * columns), *right = right_space.of(size_t(2) * rows * columns);
    Half *gram = (Half*)gram_space.of(size_t(2) * size * size), *sum = (Half*)step_space.of(size_t(2) * size * size);
    if (tall) left_by_rows(x, rows, columns, columns, left, threads);
    tall ? right_by_rows(x, rows, columns, columns, right, threads) : right_by_columns(x, rows, columns, right, threads);
    multiply<Half>(tall ? tiles_of(left, deep) : rows_of(x, columns), size, right, size / 16, deep, threads,
                   Mirrored{gram, size, nullptr, 1, 0}, true);
    right_by_columns(gram, size, size, right, threads);
    multiply<Half>(rows_of(gram, size), size, right, size / 16, size / 32, threads, Mirrored{sum, size, gram, how.c, how.b}, true);
    tall ? right_by_columns(sum, size, size, right, threads) : right_by_rows(x, rows, columns, columns, right, threads);
    multiply<Half>(tall ? rows_of(x, columns) : rows_of(sum, size), rows, right, columns / 16, size / 32, threads,
                   Moved{y, x, columns, how.a});
}

// u into `mean`, and the sum of its squares; the order of sums does not depend on threads.
template <class G>
double mean_of(const Muon& how, const G* gradient, float* momentum, float* mean, int64_t count, int threads) {
    const int64_t parts = (count + LONG - 1) / LONG;
    std::vector<double> squares(parts);
    const float scale = 1 / how.divisor, old = how.momentum;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t part = 0; part < parts; part++) {
        Floats total = {};
        for (int64_t i = part * LONG; i < std::min(count, (part + 1) * LONG); i += STRIP) {
            const Floats g = load(gradient + i) * scale, b = load(momentum + i) * old + g * (1 - old);
            const Floats u = b * old + g * (1 - old);
            store(momentum + i, b);
            store(mean + i, u);
            total += u * u;
        }
        squares[part] = _mm512_reduce_add_ps((__m512)total);
    }
    double sum = 0;
    for (double one : squares) sum += one;
    return sum;
}

template <class G>
void muon(const Muon& how, float* weights, const G* gradient, float* momentum, Half* rounded, int64_t rows, int64_t columns, int steps,
          int threads) {
    const int64_t count = rows * columns;
    float* mean = (float*)sum_space.of(size_t(count) * 4);
    const double squares = mean_of(how, gradient, momentum, mean, count, threads);
    const float scale = 1 / std::max(float(std::sqrt(squares)), 1e-7f);
    Half *x = (Half*)first_space.of(size_t(2) * count), *y = (Half*)second_space.of(size_t(2) * count);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < count; i += STRIP) store(x + i, load(mean + i) * scale);
    for (int k = 0; k < steps; k++, std::swap(x, y)) step(how, x, rows, columns, y, threads);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int64_t i = 0; i < count; i += STRIP) {
        const Floats w = load(weights + i) * how.kept - load(x + i) * how.rate;
        store(weights + i, w);
        if (rounded) store(rounded + i, w);
    }
}

}  // namespace

#endif

extern "C" {

#if defined(__AVX512BF16__)

// type: bytes of a number of the gradient; `rounded`: the weights in bfloat16, or none. Rows and columns are multiples of 32.
void calque_training_muon(const Muon* how, float* weights, const void* gradient, int type, float* momentum, void* rounded, int64_t rows,
                          int64_t columns, int steps, int threads) {
    if (type == 4) muon(*how, weights, (const float*)gradient, momentum, (Half*)rounded, rows, columns, steps, threads);
    else muon(*how, weights, (const Half*)gradient, momentum, (Half*)rounded, rows, columns, steps, threads);
}

#endif
}
