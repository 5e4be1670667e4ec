// Products of training in bfloat16 and float32: of rows with a matrix and its bias, with its transpose, and the gradient of a matrix.
//
// A library's product in bfloat16 is as fast, but its bias is another pass over the result, its gradient of a matrix a third slower,
// and it compiles something for every number of rows. Its product in float32 uses half of the width of some processors.

#include "dropout.h"
#include "training_tiles.h"

#if defined(__AVX512F__)

namespace {

constexpr int64_t FAR = 1 << 19;  // bytes of a result
constexpr int64_t PANEL = 128;    // rows of the left operand that stay in the second cache

// What becomes of sums: + bias, and with `dropout` max(0, .) times its factors; with `more` added to what is there.
template <class T>
struct Output {
    T* data;
    int64_t rows, next;
    const T* bias = nullptr;
    bool far = false;  // too large for a cache: written past it
    const Dropout* dropout = nullptr;
    int64_t first_row = 0;
    bool more = false;

    void operator()(int64_t row, int64_t column, int64_t columns, const float* sums) const {
        const bool both = columns > 16;
        const Floats low = bias ? load(bias + column) : Floats{}, high = bias && both ? load(bias + column + 16) : Floats{};
        T* to = data + row * next + column;
        const int64_t count = std::min(SQUARE, rows - row);
        for (int64_t r = 0; r < count; r++, to += next) {
            Floats a = load(sums + r * 16) + low, b = load(sums + (32 + r) * 16) + high;
            if (dropout) {
                Floats factor[2];
                dropout->factors((first_row + row + r) * next + column, factor);
                a = (a < 0 ? Floats{} : a) * factor[0];
                b = (b < 0 ? Floats{} : b) * factor[1];
            }
            if (more) {
                a += load(to);
                if (both) b += load(to + 16);
            }
            if (both) put_line(to, a, b, far);
            else store(to, a);
        }
    }
};

// y [rows][16 strips] = x [rows][DEEP deep] * right + bias; the last rows of x are copied where they are no 32.
template <class T>
void rows_times(const T* x, int64_t rows, int64_t deep, const char* right, int64_t strips, const T* bias, const Dropout* dropout, T* y,
                int threads) {
    const int64_t width = deep * DEEP<T>, out = strips * 16, whole = rows / SQUARE * SQUARE, rest = rows - whole;
    const bool far = rows * out * int64_t(sizeof(T)) > FAR && uintptr_t(y) % LINE == 0 && out % 32 == 0;
    multiply<T>(rows_of(x, width), whole, right, strips, deep, threads, Output<T>{y, whole, out, bias, far, dropout});
    if (!rest) return;
    T* tail = (T*)tail_space.of(size_t(SQUARE) * width * sizeof(T));
    std::memcpy(tail, x + whole * width, size_t(rest) * width * sizeof(T));
    std::memset(tail + rest * width, 0, size_t(SQUARE - rest) * width * sizeof(T));
    multiply<T>(rows_of(tail, width), SQUARE, right, strips, deep, threads,
                Output<T>{y + whole * out, rest, out, bias, false, dropout, whole});
}

template <class T>
void pack(const T* weight, int64_t out, int64_t width, bool back, char* packed, int threads) {
    back ? right_by_rows(weight, out, width, width, packed, threads) : right_by_columns(weight, out, width, packed, threads);
}

template <class T>
void product(const T* x, int64_t rows, const T* weight, const T* bias, int64_t out, int64_t width, bool back, const Dropout* dropout,
             T* y, int threads) {
    char* packed = right_space.of(size_t(out) * width * sizeof(T));
    pack(weight, out, width, back, packed, threads);
    rows_times(x, rows, (back ? out : width) / DEEP<T>, packed, (back ? width : out) / 16, bias, dropout, y, threads);
}

template <class T>
void gradient(const T* g, const T* x, int64_t rows, int64_t out, int64_t width, T* d_weight, T* d_bias, bool more, int threads) {
    const int64_t deep = up(rows, DEEP<T>) / DEEP<T>;
    char* right = right_space.of(size_t(width) * deep * LINE);
    right_by_rows(x, rows, width, width, right, threads);
    char* left = left_space.of(size_t(PANEL) * deep * LINE);
    for (int64_t from = 0; from < out; from += PANEL) {
        const int64_t some = std::min(PANEL, out - from);
        left_by_rows(g + from, rows, some, out, left, threads);
        const Output<T> sink{d_weight + from * width, some, width, nullptr, false, nullptr, 0, more};
        multiply<T>(tiles_of(left, deep), some, right, width / 16, deep, threads, sink);
    }
    if (!d_bias) return;
    float* sums = (float*)sum_space.of(size_t(out) * 4);
    std::fill(sums, sums + out, 0.0f);
    const int64_t strips = out / 16;
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int part = 0; part < threads; part++) {
        const int64_t first = strips * part / threads * 16, last = strips * (part + 1) / threads * 16;
        for (int64_t row = 0; row < rows; row++)
            for (int64_t column = first; column < last; column += 16)
                store(sums + column, load(sums + column) + load(g + row * out + column));
        for (int64_t column = first; column < last; column += 16) store(d_bias + column, load(sums + column));
    }
}

}  // namespace

#endif

extern "C" {

// The types that there are products for training of, by their bytes: 2 + 4.
int calque_training_products() {
    int types = 0;
#if defined(__AVX512F__)
    types += 4;
#endif
#if defined(__AVX512BF16__)
    types += 2;
#endif
    return types;
}

#if defined(__AVX512BF16__)
#define FOR_TYPE(type, ...)               \
    if (type == 4) {                      \
        using T = float;                  \
        __VA_ARGS__;                      \
    } else {                              \
        using T = Half;                   \
        __VA_ARGS__;                      \
    }
#else
#define FOR_TYPE(type, ...) \
    {                       \
        using T = float;    \
        __VA_ARGS__;        \
    }
#endif

#if defined(__AVX512F__)

// weight [out][width] laid out for `calque_training_rows`: for x weight^T, or with `back` for g weight; widths are multiples of 32.
void calque_training_pack(const void* weight, int type, int64_t out, int64_t width, int back, char* packed, int threads) {
    FOR_TYPE(type, pack((const T*)weight, out, width, back, packed, threads))
}

// y [rows][out] = x [rows][width] times a packed matrix, + bias.
void calque_training_rows(const void* x, int type, int64_t rows, const char* packed, const void* bias, int64_t out, int64_t width,
                          void* y, int threads) {
    FOR_TYPE(type, rows_times((const T*)x, rows, width / DEEP<T>, packed, out / 16, (const T*)bias, nullptr, (T*)y, threads))
}

// The same with a matrix as it is: y = x weight^T + bias, or with `back` d_x [rows][width] = g [rows][out] weight. With `relu`
// max(0, y), of which dropout keeps some.
void calque_training_product(const void* x, int type, int64_t rows, const void* weight, const void* bias, int64_t out, int64_t width,
                             int back, int relu, uint64_t seed, int64_t dropped, void* y, int threads) {
    const Dropout dropout(seed, dropped);
    const Dropout* drawn = relu ? &dropout : nullptr;
    FOR_TYPE(type, product((const T*)x, rows, (const T*)weight, (const T*)bias, out, width, back, drawn, (T*)y, threads))
}

// d_weight [out][width] = g^T x, with `more` added to what is there, and, where it is asked for, d_bias [out], the sum of the rows of g.
void calque_training_weight(const void* g, const void* x, int type, int64_t rows, int64_t out, int64_t width, void* d_weight,
                            void* d_bias, int more, int threads) {
    FOR_TYPE(type, gradient((const T*)g, (const T*)x, rows, out, width, (T*)d_weight, (T*)d_bias, more, threads))
}

#endif
}
