// Elementwise dropout by itself, for other builds than the installed one: vector widths, sanitizers.
//
// Prints a checksum of the results at odd sizes, which must be the same in every build, and how many of the
// first elements after index 2**32 share the fate of the first ones after 0.
#include <cstdio>
#include <vector>

#include "elementwise_dropout.h"

using namespace portable;

constexpr double kRate = 0.3;
constexpr uint64_t kSeed = 0x0123456789abcdefu;

template <class T, class C>
void add_to(uint64_t& checksum) {
  for (i64 count : {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 1000, 16383, 16384, 16385, 50001}) {
    std::vector<T> x(count), out(count);  // exact sizes: a sanitizer sees a step too far
    for (i64 i = 0; i < count; i++) narrow(C(i % 97 - 48) / 3, x[i]);
    drop_elements<T, C>({0, 2, count, x.data(), out.data(), kRate, kSeed});
    const uint8_t* bytes = reinterpret_cast<const uint8_t*>(out.data());
    for (size_t i = 0; i < count * sizeof(T); i++) checksum = (checksum ^ bytes[i]) * 0x100000001b3u;
  }
}

int main() {
  uint64_t checksum = 0xcbf29ce484222325u;
  add_to<float, float>(checksum);
  add_to<BFloat16, float>(checksum);
  add_to<Float16, float>(checksum);
  add_to<double, double>(checksum);

  std::vector<float> ones(kDropoutChunk, 1.0f), early(kDropoutChunk), late(kDropoutChunk);
  const uint32_t half = 0x80000000u;
  drop_chunk<float, float>(ones.data(), early.data(), 0, kDropoutChunk, kSeed, half, 1);
  drop_chunk<float, float>(ones.data(), late.data(), i64(1) << 32, kDropoutChunk, kSeed, half, 1);
  int same = 0;
  for (i64 i = 0; i < kDropoutChunk; i++) same += early[i] == late[i];
  printf("%016llx %d of %d\n", (unsigned long long)checksum, same, int(kDropoutChunk));
}
