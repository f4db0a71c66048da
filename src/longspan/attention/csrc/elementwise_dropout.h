// Dropout of a tensor's elements, for the hidden layers of a model.
//
// Whether an element survives is a hash of the seed and its index: the mask does not depend on threads or
// vectors, and the backward pass is the same function, of the gradient.
#pragma once
#include "convert.h"
#include "dropout.h"
#include "problem.h"

namespace LONGSPAN_ISA {

// Elements that a thread takes at a time; a divisor of 2**32, so that a chunk has one hash.
constexpr i64 kDropoutChunk = 1 << 14;

// The hash of the elements whose indices agree in the upper 32 bits. It takes two keys: with one, the masks
// of any two seeds would be the same numbers, shifted.
struct ElementHash {
  uint32_t first, second;

  ElementHash(uint64_t seed, i64 upper)
      : first(dropout_stream(seed, upper)), second(dropout_stream(seed << 32 | seed >> 32, ~upper)) {}

  // Of one index's lower 32 bits, or of a vector of them.
  template <class U>
  LONGSPAN_INLINE U operator()(U lower) const { return mix(mix(lower + first) ^ second); }
};

LONGSPAN_INLINE void scale_kept(Mask<float> kept, Vector<float> (&x)[1], float factor) {
  x[0] = select<float>(kept, x[0] * factor, Vector<float>{});
}
LONGSPAN_INLINE void scale_kept(Mask<float> kept, Vector<double> (&x)[2], double factor) {
  typedef int32_t Half __attribute__((vector_size(LONGSPAN_VECTOR_BYTES / 2)));
  Half halves[2];
  memcpy(halves, &kept, sizeof(kept));
  for (int i = 0; i < 2; i++)
    x[i] = select<double>(__builtin_convertvector(halves[i], Mask<double>), x[i] * factor, Vector<double>{});
}

// out = kept ? factor * x : 0, for a chunk of `count` elements of which `begin` is the first one's index.
template <class T, class C>
void drop_chunk(const T* x, T* out, i64 begin, i64 count, uint64_t seed, uint32_t threshold, C factor) {
  constexpr int lanes = kLanes<uint32_t>, parts = sizeof(C) / sizeof(float);
  const ElementHash hash(seed, begin >> 32);
  const uint32_t lower = uint32_t(begin);
  i64 i = 0;
  for (; i + lanes <= count; i += lanes) {
    Vector<C> values[parts];
    for (int part = 0; part < parts; part++) values[part] = load_wide(x + i + part * kLanes<C>);
    scale_kept(at_least(hash(lane_numbers<uint32_t>() + (lower + uint32_t(i))), threshold), values, factor);
    for (int part = 0; part < parts; part++) store_narrow(out + i + part * kLanes<C>, values[part]);
  }
  for (; i < count; i++)
    narrow(hash(lower + uint32_t(i)) >= threshold ? C(widen(x[i]) * factor) : C(0), out[i]);
}

template <class T, class C>
int drop_elements(const Elements& e) {
  const T* x = static_cast<const T*>(e.x);
  T* out = static_cast<T*>(e.out);
  const double threshold = std::floor(e.dropout * 4294967296.0 + 0.5);
  const C factor = C(1 / (1 - e.dropout));
  const i64 chunks = (e.count + kDropoutChunk - 1) / kDropoutChunk;
#pragma omp parallel for num_threads(int(e.threads)) schedule(static) if (chunks > 1)
  for (i64 chunk = 0; chunk < chunks; chunk++) {
    const i64 begin = chunk * kDropoutChunk, count = smaller(kDropoutChunk, e.count - begin);
    if (threshold < 4294967296.0)
      drop_chunk<T, C>(x + begin, out + begin, begin, count, e.seed, uint32_t(threshold), factor);
    else
      memset((void*)(out + begin), 0, sizeof(T) * count);
  }
  return kDone;
}

}  // namespace LONGSPAN_ISA
