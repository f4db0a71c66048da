// The one matrix product under everything: C (+)= A . B on small tiles that live in registers.
//
// A is read one operand at a time and broadcast, B and C by vectors. All products of attention's forward
// and backward passes have this form; only the strides differ. An operand is a number of C's type, or a
// pair of bf16 numbers that follow each other in the depth of the product.
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

template <bool Add, int Rows, int Vectors, class E, class C, class RowStride, class StepStride, class Factor>
LONGSPAN_INLINE void tile(int depth, const E* a, RowStride a_row_, StepStride a_step_, const E* b, i64 b_step,
                          C* c, i64 c_row, Factor factor) {
  static_assert(sizeof(E) == sizeof(C), "an operand for every lane");
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
    Vector<E> right[Vectors];
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; v++) right[v] = load(b + s * b_step + v * lanes);
#pragma GCC unroll 16
    for (int r = 0; r < Rows; r++) {
      const Vector<E> left = broadcast(a[r * a_row + s * a_step]);
#pragma GCC unroll 4
      for (int v = 0; v < Vectors; v++) sum[r][v] = multiply_add<C, E>(sum[r][v], left, right[v]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < Rows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < Vectors; v++) store(c + r * c_row + v * lanes, times<C>(sum[r][v], factor));
}

template <bool Add, int Vectors, int Rows, class E, class C, class RowStride, class StepStride, class Factor>
LONGSPAN_INLINE void tile_of(int rows, int depth, const E* a, RowStride a_row, StepStride a_step, const E* b,
                             i64 b_step, C* c, i64 c_row, Factor factor) {
  if (rows == Rows) tile<Add, Rows, Vectors>(depth, a, a_row, a_step, b, b_step, c, c_row, factor);
  else if constexpr (Rows > 1)
    tile_of<Add, Vectors, Rows - 1>(rows, depth, a, a_row, a_step, b, b_step, c, c_row, factor);
}

template <bool Add, int Vectors, class E, class C, class RowStride, class StepStride, class Factor>
LONGSPAN_INLINE void tile_of_width(int vectors, int rows, int depth, const E* a, RowStride a_row, StepStride a_step,
                                   const E* b, i64 b_step, C* c, i64 c_row, Factor factor) {
  if (vectors == Vectors)
    tile_of<Add, Vectors, kTileRows>(rows, depth, a, a_row, a_step, b, b_step, c, c_row, factor);
  else if constexpr (Vectors > 1)
    tile_of_width<Add, Vectors - 1>(vectors, rows, depth, a, a_row, a_step, b, b_step, c, c_row, factor);
}

// C[r][0 .. vectors) = factor * sum over s < depth of A[r * a_row + s * a_step] * B[s * b_step + ...], or
// that sum added to what is there; for at most kTileRows rows.
template <bool Add, class E, class C, class RowStride, class StepStride, class Factor = One>
__attribute__((noinline)) void matmul_rows(int rows, int vectors, int depth, const E* a, RowStride a_row,
                                           StepStride a_step, const E* b, i64 b_step, C* c, i64 c_row,
                                           Factor factor = {}) {
  static_assert(!Add || std::is_same_v<Factor, One>, "what is there has its factor already");
  for (; vectors > 0; vectors -= kTileVectors) {
    tile_of_width<Add, kTileVectors>(smaller(vectors, kTileVectors), rows, depth, a, a_row, a_step, b, b_step, c, c_row,
                                     factor);
    b += kTileVectors * kLanes<C>;
    c += kTileVectors * kLanes<C>;
  }
}

}  // namespace LONGSPAN_ISA
