// The one matrix product under everything: C (+)= A . B on small tiles that live in registers.
//
// A is read one number at a time and broadcast, B and C by vectors. Five products of attention's
// forward and backward passes have this form; only the strides differ.
#pragma once
#include "simd.h"

namespace LONGSPAN_ISA {

// Tile height and width in registers: 6 x 2 fills 16 vector registers, 6 x 4 fills 32. Not 12 x 2:
// the addresses of twelve rows at a stride known only at run time do not fit into the other registers.
constexpr int kTileRows = 6;
constexpr int kTileVectors = LONGSPAN_VECTOR_BYTES == 64 ? 4 : 2;

// A stride that the compiler knows.
template <i64 N>
struct Fixed {
  constexpr operator i64() const { return N; }
};

template <bool Add, int Rows, int Vectors, class C, class RowStride, class StepStride>
LONGSPAN_INLINE void tile(int depth, const C* a, RowStride a_row_, StepStride a_step_, const C* b, i64 b_step,
                          C* c, i64 c_row) {
  constexpr int lanes = kLanes<C>;
  const i64 a_row = a_row_, a_step = a_step_;
  Vector<C> sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int r = 0; r < Rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; v++)
      sum[r][v] = Add ? load(c + r * c_row + v * lanes) : Vector<C>{};
#pragma GCC unroll 4
  for (int s = 0; s < depth; s++) {
    Vector<C> right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; v++) right[v] = load(b + s * b_step + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; r++) {
      const Vector<C> left = broadcast(a[r * a_row + s * a_step]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; v++) sum[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; v++) store(c + r * c_row + v * lanes, sum[r][v]);
}

template <bool Add, int Vectors, int Rows, class C, class RowStride, class StepStride>
LONGSPAN_INLINE void tile_of(int rows, int depth, const C* a, RowStride a_row, StepStride a_step, const C* b,
                             i64 b_step, C* c, i64 c_row) {
  if (rows == Rows) tile<Add, Rows, Vectors>(depth, a, a_row, a_step, b, b_step, c, c_row);
  else if constexpr (Rows > 1)
    tile_of<Add, Vectors, Rows - 1>(rows, depth, a, a_row, a_step, b, b_step, c, c_row);
}

template <bool Add, int Vectors, class C, class RowStride, class StepStride>
LONGSPAN_INLINE void tile_of_width(int vectors, int rows, int depth, const C* a, RowStride a_row, StepStride a_step,
                                   const C* b, i64 b_step, C* c, i64 c_row) {
  if (vectors == Vectors) tile_of<Add, Vectors, kTileRows>(rows, depth, a, a_row, a_step, b, b_step, c, c_row);
  else if constexpr (Vectors > 1)
    tile_of_width<Add, Vectors - 1>(vectors, rows, depth, a, a_row, a_step, b, b_step, c, c_row);
}

// C[r][0 .. vectors) (+)= sum over s < depth of A[r * a_row + s * a_step] * B[s * b_step + ...],
// for at most kTileRows rows.
template <bool Add, class C, class RowStride, class StepStride>
__attribute__((noinline)) void matmul_rows(int rows, int vectors, int depth, const C* a, RowStride a_row,
                                           StepStride a_step, const C* b, i64 b_step, C* c, i64 c_row) {
  for (; vectors > 0; vectors -= kTileVectors) {
    tile_of_width<Add, kTileVectors>(smaller(vectors, kTileVectors), rows, depth, a, a_row, a_step, b, b_step, c, c_row);
    b += kTileVectors * kLanes<C>;
    c += kTileVectors * kLanes<C>;
  }
}

}  // namespace LONGSPAN_ISA
