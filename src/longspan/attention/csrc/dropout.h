// Which pairs dropout keeps: the same function as `dropout.py`, of the seed and the pair's place.
#pragma once
#include "simd.h"

namespace LONGSPAN_ISA {

constexpr uint32_t kGolden = 0x9E3779B9u, kFirstFactor = 0x7FEB352Du, kSecondFactor = 0x846CA68Bu;

// Of a number, or of a vector of them.
template <class U>
LONGSPAN_INLINE U mix(U x) {
  x = (x ^ (x >> 16)) * kFirstFactor;
  x = (x ^ (x >> 15)) * kSecondFactor;
  return x ^ (x >> 16);
}

// The hash stream of one (example, head).
LONGSPAN_INLINE uint32_t dropout_stream(uint64_t seed, i64 row) {
  return mix(uint32_t(seed) + mix(uint32_t(seed >> 32) + mix(uint32_t(row) + kGolden)));
}

LONGSPAN_INLINE uint32_t dropout_query(uint32_t stream, i64 position) {
  return mix(stream + uint32_t(position) * kGolden);
}

// Vector instructions compare signed numbers; flipping the top bit keeps the order.
LONGSPAN_INLINE Mask<float> at_least(Vector<uint32_t> x, uint32_t threshold) {
  return (Mask<float>)(x ^ 0x80000000u) >= broadcast(int32_t(threshold ^ 0x80000000u));
}

// Lanes whose pair survives. `queries` holds dropout_query of each lane; hashes below `threshold` drop.
template <class C>
LONGSPAN_INLINE Mask<C> kept(const uint32_t* queries, i64 key_position, uint32_t threshold) {
  const uint32_t key = uint32_t(key_position) * kGolden;
  if constexpr (sizeof(C) == 4) {
    Vector<uint32_t> x = (load(queries) ^ broadcast(key)) * kFirstFactor;
    return at_least((x ^ (x >> 15)) * kSecondFactor, threshold);
  } else {
    Mask<C> mask{};
    for (int i = 0; i < kLanes<C>; i++) {
      uint32_t x = (queries[i] ^ key) * kFirstFactor;
      x = (x ^ (x >> 15)) * kSecondFactor;
      mask[i] = x >= threshold ? -1 : 0;
    }
    return mask;
  }
}

}  // namespace LONGSPAN_ISA
