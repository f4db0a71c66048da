// Rows of any storage type in, rows of the compute type out, and back.
//
// bf16 and fp16 are widened while a row is packed, so the arithmetic has one form. Rounding is to
// nearest, ties to even, as torch's.
#pragma once
#include "simd.h"

namespace LONGSPAN_ISA {

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

LONGSPAN_INLINE float float_from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
LONGSPAN_INLINE uint32_t bits_of_float(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return bits;
}

LONGSPAN_INLINE float widen(float x) { return x; }
LONGSPAN_INLINE double widen(double x) { return x; }
LONGSPAN_INLINE float widen(BFloat16 x) { return float_from_bits(uint32_t(x.bits) << 16); }
LONGSPAN_INLINE float widen(Float16 x) {
#ifdef __F16C__
  return _cvtsh_ss(x.bits);
#else
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16, magnitude = x.bits & 0x7fff;
  if (magnitude >= 0x7c00) return float_from_bits(sign | 0x7f800000 | (magnitude << 13));
  // Scaling by 2**112 moves the exponent from fp16's bias to fp32's, subnormals included.
  const float scaled = float_from_bits(magnitude << 13) * float_from_bits(0x77800000);
  return float_from_bits(sign | bits_of_float(scaled));
#endif
}

LONGSPAN_INLINE void narrow(float x, float& to) { to = x; }
LONGSPAN_INLINE void narrow(double x, double& to) { to = x; }
LONGSPAN_INLINE void narrow(float x, BFloat16& to) {
  const uint32_t bits = bits_of_float(x);
  to.bits = x != x ? uint16_t(0x7fc0) : uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
LONGSPAN_INLINE void narrow(float x, Float16& to) {
#ifdef __F16C__
  to.bits = _cvtss_sh(x, 0);
#else
  const uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) to.bits = uint16_t(sign | 0x7e00);
  else if (magnitude >= 0x477ff000) to.bits = uint16_t(sign | 0x7c00);  // rounds to infinity
  else if (magnitude < 0x38800000)  // subnormal: adding 0.5 lets the adder round at 2**-24
    to.bits = uint16_t(sign | (bits_of_float(float_from_bits(magnitude) + 0.5f) - 0x3f000000));
  else to.bits = uint16_t(sign | ((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13));
#endif
}

LONGSPAN_INLINE Vector<float> load_wide(const float* from) { return load(from); }
LONGSPAN_INLINE Vector<double> load_wide(const double* from) { return load(from); }
LONGSPAN_INLINE Vector<float> load_wide(const BFloat16* from) {
  typedef uint16_t Half __attribute__((vector_size(LONGSPAN_VECTOR_BYTES / 2), aligned(2), may_alias));
  const Half half = *reinterpret_cast<const Half*>(from);
  return (Vector<float>)(__builtin_convertvector(half, Vector<uint32_t>) << 16);
}
LONGSPAN_INLINE Vector<float> load_wide(const Float16* from) {
#if defined(__AVX512F__) && LONGSPAN_VECTOR_BYTES == 64
  return (Vector<float>)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)from));
#elif defined(__F16C__) && LONGSPAN_VECTOR_BYTES == 32
  return (Vector<float>)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i*)from));
#else
  Vector<float> x;
  for (int i = 0; i < kLanes<float>; i++) x[i] = widen(from[i]);
  return x;
#endif
}

LONGSPAN_INLINE void store_narrow(float* to, Vector<float> x) { store(to, x); }
LONGSPAN_INLINE void store_narrow(double* to, Vector<double> x) { store(to, x); }
// bf16 in the lower half of every lane.
LONGSPAN_INLINE Vector<uint32_t> rounded_to_bfloat(Vector<float> x) {
  const Vector<uint32_t> bits = (Vector<uint32_t>)x;
  const Vector<uint32_t> rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  return (x == x) ? rounded : broadcast<uint32_t>(0x7fc0);
}
LONGSPAN_INLINE void store_narrow(BFloat16* to, Vector<float> x) {
  typedef uint16_t Half __attribute__((vector_size(LONGSPAN_VECTOR_BYTES / 2), aligned(2), may_alias));
  *reinterpret_cast<Half*>(to) = __builtin_convertvector(rounded_to_bfloat(x), Half);
}
LONGSPAN_INLINE void store_narrow(Float16* to, Vector<float> x) {
#if defined(__AVX512F__) && LONGSPAN_VECTOR_BYTES == 64
  _mm256_storeu_si256((__m256i*)to, _mm512_cvtps_ph((__m512)x, 0));
#elif defined(__F16C__) && LONGSPAN_VECTOR_BYTES == 32
  _mm_storeu_si128((__m128i*)to, _mm256_cvtps_ph((__m256)x, 0));
#else
  for (int i = 0; i < kLanes<float>; i++) narrow(x[i], to[i]);
#endif
}

// to[0 .. width) = row, zeros from head_dim on. Returns lanes that are 0, or NaN where a value was not
// finite.
template <class T, class C>
LONGSPAN_INLINE Vector<C> pack_row(const T* from, int head_dim, int width, C* to) {
  constexpr int lanes = kLanes<C>;
  Vector<C> poison{};
  int d = 0;
  for (; d + lanes <= head_dim; d += lanes) {
    const Vector<C> x = load_wide(from + d);
    poison += x * C(0);
    store(to + d, x);
  }
  for (; d < width; d++) {
    to[d] = d < head_dim ? widen(from[d]) : C(0);
    poison[0] += to[d] * C(0);
  }
  return poison;
}

// row[0 .. head_dim) = factor * from, or added to what is there.
template <bool Add, class T, class C>
LONGSPAN_INLINE void unpack_row(const C* from, int head_dim, C factor, T* row) {
  constexpr int lanes = kLanes<C>;
  int d = 0;
  for (; d + lanes <= head_dim; d += lanes) {
    Vector<C> x = load(from + d) * factor;
    if (Add) x += load_wide(row + d);
    store_narrow(row + d, x);
  }
  for (; d < head_dim; d++) narrow(C(from[d] * factor + (Add ? widen(row[d]) : C(0))), row[d]);
}

// rest[0 .. head_dim) = what rounding took from factor * from when it became row.
template <class T, class C>
LONGSPAN_INLINE void unpack_rest(const C* from, int head_dim, C factor, const T* row, T* rest) {
  constexpr int lanes = kLanes<C>;
  int d = 0;
  for (; d + lanes <= head_dim; d += lanes) store_narrow(rest + d, load(from + d) * factor - load_wide(row + d));
  for (; d < head_dim; d++) narrow(C(from[d] * factor - widen(row[d])), rest[d]);
}

template <class T>
LONGSPAN_INLINE void zero_row(T* row, int head_dim) { memset((void*)row, 0, sizeof(T) * head_dim); }

template <class C>
LONGSPAN_INLINE bool is_clean(Vector<C> poison) {
  bool clean = true;
  for (int i = 0; i < kLanes<C>; i++) clean &= poison[i] == poison[i];
  return clean;
}

}  // namespace LONGSPAN_ISA
