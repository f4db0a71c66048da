// What the products multiply: numbers of the compute type, or pairs of bf16 numbers.
//
// The depth of a product of pairs is half as long. Rows whose own numbers follow each other in the depth are
// pairs as they lie in memory; where the depth goes from row to row, two neighbouring rows are zipped:
// zipped[i][d] is the pair of rows[2 * i][d] and rows[2 * i + 1][d]. For operands that are single numbers,
// zipped rows are just rows.
#pragma once
#include "convert.h"

#ifndef LONGSPAN_PAIRS
#define LONGSPAN_PAIRS 0
#endif

namespace LONGSPAN_ISA {

// The operand of tensors stored as T, with sums in C.
template <class T, class C>
using Operand = std::conditional_t<LONGSPAN_PAIRS && std::is_same_v<T, BFloat16>, Pair, C>;

// Numbers of an operand.
template <class E>
constexpr int kNumbers = std::is_same_v<E, Pair> ? 2 : 1;

LONGSPAN_INLINE const BFloat16* numbers_of(const Pair* pairs) { return reinterpret_cast<const BFloat16*>(pairs); }
LONGSPAN_INLINE BFloat16* numbers_of(Pair* pairs) { return reinterpret_cast<BFloat16*>(pairs); }

// `pack_row` of `convert.h`, into `size` pairs, a whole number of vectors.
LONGSPAN_INLINE Vector<float> pack_row(const BFloat16* from, int head_dim, int size, Pair* to) {
  constexpr int lanes = kLanes<float>;
  BFloat16* numbers = numbers_of(to);
  Vector<float> poison{};
  int d = 0;
  for (; d + lanes <= head_dim; d += lanes) {
    poison += load_wide(from + d) * 0.0f;
    memcpy((void*)(numbers + d), from + d, sizeof(BFloat16) * lanes);
  }
  for (; d < 2 * size; d += lanes) {
    const int rest = larger(0, head_dim - d);
    memset((void*)(numbers + d), 0, sizeof(BFloat16) * lanes);
    memcpy((void*)(numbers + d), from + d, sizeof(BFloat16) * rest);
    poison += load_wide(numbers + d) * 0.0f;
  }
  return poison;
}

// Zips a packed row with its neighbour. The first of two comes first, and its neighbour is 0 until it comes.
LONGSPAN_INLINE void zip_row(const Pair* row, int width, bool is_second, Pair* to) {
  for (int d = 0; d < width; d += kLanes<Pair>) {
    const Vector<Pair> upper = (Vector<Pair>)load_wide(numbers_of(row) + d);
    store(to + d, is_second ? load(to + d) | upper : upper >> 16);
  }
}

// Numbers d, d + 1, ... of a row of `zipped`.
template <class C>
LONGSPAN_INLINE Vector<C> load_zipped(const C* zipped, i64 row, int width, int d) {
  return load(zipped + row * width + d);
}
LONGSPAN_INLINE Vector<float> load_zipped(const Pair* zipped, i64 row, int width, int d) {
  const Vector<Pair> pairs = load(zipped + row / 2 * width + d);
  return (Vector<float>)(row % 2 ? pairs & broadcast<Pair>(0xffff0000) : pairs << 16);
}

// The number that a weight becomes as half of a pair; of two that are as near, the larger one.
LONGSPAN_INLINE Vector<float> as_half_of_pair(Vector<float> weight) {
  return (Vector<float>)(((Vector<uint32_t>)weight + 0x8000) & 0xffff0000);
}

// Weights rounded to bf16: two rows zipped, or one row of numbers. The instructions take what is below
// 2**-126 as 0, as the products do.
LONGSPAN_INLINE Vector<Pair> zip(Vector<float> first, Vector<float> second) {
#if defined(__AVX512BF16__) && LONGSPAN_VECTOR_BYTES == 64
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21,
                                         5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return (Vector<Pair>)_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh((__m512)second, (__m512)first));
#else
  return rounded_to_bfloat(first) | rounded_to_bfloat(second) << 16;
#endif
}
LONGSPAN_INLINE void store_numbers(Pair* to, Vector<float> x) {
#if defined(__AVX512BF16__) && LONGSPAN_VECTOR_BYTES == 64
  _mm256_storeu_si256((__m256i*)to, (__m256i)_mm512_cvtneps_pbh((__m512)x));
#else
  store_narrow(numbers_of(to), x);
#endif
}

}  // namespace LONGSPAN_ISA
