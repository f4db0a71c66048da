// Vectors of the width of one instruction set, in the compiler's own vector types.
//
// The same source serves every instruction set: the build sets LONGSPAN_ISA (a namespace of its own,
// so that no two builds of a template can be confused by the linker) and LONGSPAN_VECTOR_BYTES.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#ifdef __AVX__
#include <immintrin.h>
#endif

#define LONGSPAN_INLINE inline __attribute__((always_inline))

namespace LONGSPAN_ISA {

using i64 = int64_t;

template <class C>
struct VectorOf {
  typedef C aligned_type __attribute__((vector_size(LONGSPAN_VECTOR_BYTES)));
  typedef C loose_type __attribute__((vector_size(LONGSPAN_VECTOR_BYTES), aligned(sizeof(C)), may_alias));
};
template <class C>
using Vector = typename VectorOf<C>::aligned_type;

template <class C>
constexpr int kLanes = LONGSPAN_VECTOR_BYTES / sizeof(C);

// The integer of the same size, for lane masks and bit tricks.
template <class C>
struct IntegerOf;
template <>
struct IntegerOf<float> {
  using type = int32_t;
};
template <>
struct IntegerOf<double> {
  using type = int64_t;
};
template <>
struct IntegerOf<uint32_t> {
  using type = int32_t;
};
template <class C>
using Mask = Vector<typename IntegerOf<C>::type>;

template <class A>
LONGSPAN_INLINE A smaller(A a, A b) { return a < b ? a : b; }
template <class A>
LONGSPAN_INLINE A larger(A a, A b) { return a > b ? a : b; }

template <class C>
LONGSPAN_INLINE Vector<C> load(const C* from) {
  return *reinterpret_cast<const typename VectorOf<C>::loose_type*>(from);
}
template <class C>
LONGSPAN_INLINE void store(C* to, Vector<C> x) {
  *reinterpret_cast<typename VectorOf<C>::loose_type*>(to) = x;
}

template <class C>
LONGSPAN_INLINE Vector<C> broadcast(C x) {
  // Spelled out: this form becomes one broadcast instruction, a loop does not.
  constexpr int lanes = kLanes<C>;
  if constexpr (lanes == 2) return Vector<C>{x, x};
  else if constexpr (lanes == 4) return Vector<C>{x, x, x, x};
  else if constexpr (lanes == 8) return Vector<C>{x, x, x, x, x, x, x, x};
  else return Vector<C>{x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x};
}

template <class C>
LONGSPAN_INLINE Vector<C> lane_numbers() {
  Vector<C> x;
  for (int i = 0; i < kLanes<C>; i++) x[i] = C(i);
  return x;
}

// Lanes low <= lane <= high.
template <class C>
LONGSPAN_INLINE Mask<C> lanes_between(int low, int high) {
  using Integer = typename IntegerOf<C>::type;
  const Mask<C> lane = lane_numbers<Integer>();
  return (lane >= broadcast<Integer>(low)) & (lane <= broadcast<Integer>(high));
}

template <class C>
LONGSPAN_INLINE Vector<C> select(Mask<C> mask, Vector<C> yes, Vector<C> no) { return mask ? yes : no; }

// The larger lane; a NaN in `b` comes through, as in the machine's own instruction.
template <class C>
LONGSPAN_INLINE Vector<C> maximum(Vector<C> a, Vector<C> b) {
#if defined(__AVX512F__) && LONGSPAN_VECTOR_BYTES == 64
  if constexpr (sizeof(C) == 4) return (Vector<C>)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__) && LONGSPAN_VECTOR_BYTES == 32
  if constexpr (sizeof(C) == 4) return (Vector<C>)_mm256_max_ps((__m256)a, (__m256)b);
#endif
  return a > b ? a : b;
}

// Each lane plus the one `Distance` away: halving the distance adds all lanes in few steps.
template <int Distance, class C>
LONGSPAN_INLINE Vector<C> fold_lanes(Vector<C> x) {
  if constexpr (Distance == 0) return x;
  else {
    Mask<C> partner;
#pragma GCC unroll 16
    for (int i = 0; i < kLanes<C>; i++) partner[i] = i ^ Distance;
    return fold_lanes<Distance / 2, C>(x + __builtin_shuffle(x, partner));
  }
}
template <class C>
LONGSPAN_INLINE C sum_of_lanes(Vector<C> x) { return fold_lanes<kLanes<C> / 2, C>(x)[0]; }

// Two neighbouring bf16 numbers of a product's depth, the first in the lower half: an operand of the builds
// with LONGSPAN_PAIRS. As wide as a float, so tiles of pairs and of floats have the same shape.
using Pair = uint32_t;

// sum + a . b for the two pairs of every lane: the instruction, or what it does, but that it takes numbers
// below 2**-126 as 0.
LONGSPAN_INLINE Vector<float> pair_dot(Vector<float> sum, Vector<Pair> a, Vector<Pair> b) {
#if defined(__AVX512BF16__) && LONGSPAN_VECTOR_BYTES == 64
  return (Vector<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
  const Vector<Pair> upper = broadcast<Pair>(0xffff0000);
  sum += (Vector<float>)(a & upper) * (Vector<float>)(b & upper);
  return sum + (Vector<float>)(a << 16) * (Vector<float>)(b << 16);
#endif
}

// sum + a . b lane by lane, for operands E of a product that is summed in C.
template <class C, class E>
LONGSPAN_INLINE Vector<C> multiply_add(Vector<C> sum, Vector<E> a, Vector<E> b) {
  if constexpr (std::is_same_v<E, Pair>) return pair_dot(sum, a, b);
  else return sum + a * b;
}

// The factor 1, which the compiler knows.
struct One {};
template <class C, class Factor>
LONGSPAN_INLINE Vector<C> times(Vector<C> x, Factor factor) {
  if constexpr (std::is_same_v<Factor, One>) return x;
  else return x * factor;
}

// to[column][row] = factor * from[row][column], or that added to what is there, for a square as wide as a vector.
template <bool Add = false, class C, class Factor>
LONGSPAN_INLINE void transpose(const C* from, i64 from_row, Factor factor, C* to, i64 to_row) {
  constexpr int lanes = kLanes<C>;
  Vector<C> x[lanes], y[lanes];
  Mask<C> low, high;
#pragma GCC unroll 16
  for (int i = 0; i < lanes; i++) {
    low[i] = i / 2 + i % 2 * lanes;
    high[i] = low[i] + lanes / 2;
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; i++) x[i] = times<C>(load(from + i * from_row), factor);
  // Interleaving row i with row i + lanes / 2, log2(lanes) times, is a transposition.
#pragma GCC unroll 4
  for (int stage = 1; stage < lanes; stage *= 2) {
#pragma GCC unroll 16
    for (int i = 0; i < lanes / 2; i++) {
      y[2 * i] = __builtin_shuffle(x[i], x[i + lanes / 2], low);
      y[2 * i + 1] = __builtin_shuffle(x[i], x[i + lanes / 2], high);
    }
#pragma GCC unroll 16
    for (int i = 0; i < lanes; i++) x[i] = y[i];
  }
#pragma GCC unroll 16
  for (int i = 0; i < lanes; i++) store(to + i * to_row, Add ? load(to + i * to_row) + x[i] : x[i]);
}

template <class C>
constexpr C kLog2E = C(1.4426950408889634073599);
template <class C>
constexpr C kLn2 = C(0.69314718055994530941723);

// 2**x for x <= 0 (and a little above); about one unit in the last place. NaN stays NaN.
LONGSPAN_INLINE Vector<float> exp2_of(Vector<float> x) {
  x = maximum<float>(broadcast(-126.0f), x);
  // Adding 1.5 * 2**23 rounds to an integer and leaves it in the low bits.
  const Vector<float> magic = broadcast(12582912.0f);
  const Vector<float> shifted = x + magic;
  const Vector<float> r = x - (shifted - magic);
  // Minimax polynomial of 2**r on [-0.5, 0.5]; relative error 7.5e-8.
  constexpr float c[] = {1.000000072e+00f, 6.931469671e-01f, 2.402211972e-01f,
                         5.550713275e-02f, 9.675541480e-03f, 1.327647203e-03f};
  // Estrin's order: shorter chains of dependent operations than Horner's.
  const Vector<float> square = r * r;
  const Vector<float> high = r * c[5] + c[4], middle = r * c[3] + c[2], low = r * c[1] + c[0];
  const Vector<float> p = (high * square + middle) * square + low;
  return (Vector<float>)((Vector<uint32_t>)p + ((Vector<uint32_t>)shifted << 23));
}
LONGSPAN_INLINE Vector<double> exp2_of(Vector<double> x) {
  for (int i = 0; i < kLanes<double>; i++) x[i] = std::exp2(x[i]);
  return x;
}

}  // namespace LONGSPAN_ISA
