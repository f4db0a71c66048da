// Keys, queries and weights as a worker keeps them: packed, in the layouts that the products read.
#pragma once
#include "geometry.h"
#include "pairs.h"

namespace LONGSPAN_ISA {

// Keys that are worked on together; scores of a block and a chunk stay in the first-level cache.
constexpr int kChunk = 96;

// Consecutive keys of a chunk that lie one after the other in packed memory.
template <class E, class C>
struct Segment {
  int begin, end;  // rows of the chunk; the first is even
  const E *k, *v, *zipped;  // as in the panel
  C *dk, *dv;      // [end - begin][width], gradients, in the backward pass
};

template <class E, class C>
struct Chunk {
  int rows, band;   // rows >= band belong to the window, those before are global keys
  i64 band_step;    // step of row `band`
  Segment<E, C> segments[3];  // global keys, window, window again from the panel's beginning
  bool whole;       // every lane sees every row; low and high are not filled then
  bool clean;       // no inf or NaN in the packed keys and values
  i64 position[kChunk];
  int low[kChunk], high[kChunk];  // lanes that see the row: low .. high, none if high < low

  // Whether some, or every, lane from first_lane to last_lane sees the row.
  bool any_sees(int row, int first_lane, int last_lane) const {
    return whole || (low[row] <= last_lane && high[row] >= first_lane);
  }
  bool all_see(int row, int first_lane, int last_lane) const {
    return whole || (low[row] <= first_lane && high[row] >= last_lane);
  }
};

// Packed rows of keys and values. For the window it is a ring that slides along with the queries and
// stays in the second-level cache: step t is kept in row t % capacity, for from <= t < to.
template <class E>
struct Panel {
  E *k, *v;   // [capacity][row_size]; v in the forward pass of pairs: one row
  E* zipped;  // [capacity / kNumbers][width]: what is summed up over keys, v forward and k backward
  i64 capacity, from = 0, to = 0;
  i64 ahead = 0;  // steps before this one were asked for
  bool clean = true;
};

// Packed rows of a tensor of queries, of which every lane has one.
template <class E, class C>
struct Lanes {
  E* rows;     // [kBlock][row_size]
  E* columns;  // [row_size][kBlock]
  E* zipped;   // [kBlock / kNumbers][width], in the backward pass
  C factor;    // of products with columns of pairs; numbers are multiplied by it when they are packed
};

// A matrix over a chunk's keys and the lanes, as numbers and as operands of products over either.
template <class E, class C>
struct Weights {
  C* numbers;       // [kChunk][kBlock]
  E* over_keys;     // [kChunk / kNumbers][kBlock], rows zipped
  E* over_queries;  // [kChunk][kBlock / kNumbers]
};

}  // namespace LONGSPAN_ISA
