// Tiles of AMX: eight of 16 rows of 64 bytes, for as long as a `Tiles` lives. Nothing where there are none.

#pragma once

#include <cstdint>

#ifdef __AMX_TILE__
#include <immintrin.h>
#endif

namespace {

#ifdef __AMX_TILE__
struct alignas(64) TileShape {
    uint8_t palette = 1, start = 0, unused[14] = {};
    uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
const TileShape tile_shape;

struct Tiles {
    Tiles() { _tile_loadconfig(&tile_shape); }
    ~Tiles() { _tile_release(); }
};
#else
struct Tiles {};
#endif

}  // namespace
