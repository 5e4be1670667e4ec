// What a call of a program is about, as `calque.native.placed` writes it.

#pragma once

#include <cstdint>

namespace {

struct Place {
    int64_t base, next, column, width;  // bytes before it for one row, below 0 for nothing; numbers from row to row
};

struct Operation {
    int64_t kind;
    Place x, y, z, out;
    int64_t n[8];
    const void* p[4];
    float f[2];
};

struct Bound {  // a tensor from outside
    void* data;
    int64_t next[3], size;  // numbers from one to the next in its first dimensions; the length of its last but one
};

struct Frame {
    int64_t rows, beams, visible, room, origin_next, sentences, threads;
    char* arena;
    const int64_t *words, *positions, *starts;  // of an encoder: each row's position, and each sentence's first row
    const int16_t* origin;
    const Bound* bound;
    const int64_t* parents;  // which row of the step before each one continues; null: its own
    const int64_t* places;   // of each sentence, its place in the tensors that sentences have; null: its own number
};

}  // namespace
