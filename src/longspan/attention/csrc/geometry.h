// Where queries and keys stand, and which lanes of a block see a key.
//
// A head with dilation d falls apart into d independent classes of positions (the residues modulo d).
// Inside a class, neighbouring positions are neighbouring steps and the window is contiguous, so
// dilation is only a stride: no gather, no copy, the same kernel.
#pragma once
#include "problem.h"
#include "simd.h"

namespace LONGSPAN_ISA {

// Queries that are worked on together: the lanes of a few vectors.
constexpr int kBlock = 64;
// Below every finite score: the running maximum before a key was seen.
constexpr float kNoScore = -1e30f;

// The positions of one residue class of one head, and the queries among them.
struct PhaseOfHead {
  i64 first, dilation;  // step t is position first + t * dilation
  i64 key_steps;
  i64 left, right;      // window, in steps
  bool causal;
  i64 query_count;
  i64 query_row;        // row of the first query; the next one is `dilation` rows below
  i64 query_step;       // its step
  const i64* positions; // explicit query positions instead (one class, full window), or null
  bool rows_by_position;  // the row of a query is its position

  i64 position(i64 step) const { return first + step * dilation; }
};

inline PhaseOfHead phase_of(const Problem& p, i64 b, i64 head, i64 residue) {
  PhaseOfHead phase;
  const i64* pattern = p.patterns + 3 * head;
  phase.first = residue;
  phase.dilation = pattern[2];
  phase.key_steps = residue < p.keys ? (p.keys - residue + phase.dilation - 1) / phase.dilation : 0;
  phase.left = smaller(pattern[0], phase.key_steps);
  phase.right = smaller(pattern[1], phase.key_steps);
  phase.causal = pattern[1] == 0;
  phase.positions = p.positions ? p.positions + b * p.queries : nullptr;
  phase.rows_by_position = p.rows_by_position;
  phase.query_step = phase.query_row = 0;
  if (phase.positions) {
    phase.query_count = 0;
    while (phase.query_count < p.queries && phase.positions[phase.query_count] >= 0) phase.query_count++;
    return phase;
  }
  // First query position at or after the offset that lies in this class.
  const i64 ahead = ((residue - p.offset) % phase.dilation + phase.dilation) % phase.dilation;
  phase.query_row = ahead;
  phase.query_count = ahead < p.queries ? (p.queries - ahead + phase.dilation - 1) / phase.dilation : 0;
  phase.query_step = (p.offset + ahead - residue) / phase.dilation;
  return phase;
}

// Rows of a tensor of queries.
inline i64 query_rows(const Problem& p) { return p.rows_by_position ? p.keys : p.queries; }

// Up to kBlock queries of a class, one per lane.
struct QueryBlock {
  int count;
  i64 row0, row_step;       // row of lane 0 in the query tensor, distance to the next lane's
  i64 step;                 // step of lane 0 (neighbouring queries)
  i64 position0, dilation;  // position of lane 0, distance to the next lane's
  const i64* positions;     // explicit positions of the lanes, or null
  bool rows_by_position;

  QueryBlock() = default;
  QueryBlock(const PhaseOfHead& phase, i64 from)
      : count(int(smaller<i64>(kBlock, phase.query_count - from))),
        row0(phase.query_row + from * phase.dilation),
        row_step(phase.dilation),
        step(phase.query_step + from),
        position0(phase.position(phase.query_step + from)),
        dilation(phase.dilation),
        positions(phase.positions ? phase.positions + from : nullptr),
        rows_by_position(phase.rows_by_position) {}

  i64 position(int lane) const { return positions ? positions[lane] : position0 + lane * dilation; }

  i64 row(i64 lane) const { return rows_by_position ? positions[lane] : row0 + lane * row_step; }

  // Number of lanes that stand before `position`.
  int lanes_before(i64 position) const {
    if (positions) {
      int low = 0, high = count;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (positions[middle] < position) low = middle + 1;
        else high = middle;
      }
      return low;
    }
    const i64 ahead = position - position0;
    if (ahead <= 0) return 0;
    return int(smaller<i64>(count, dilation == 1 ? ahead : (ahead + dilation - 1) / dilation));
  }
};

}  // namespace LONGSPAN_ISA
