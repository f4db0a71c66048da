// The library's C interface: picks the build for this machine's instruction set.
#include <cstring>
#ifdef __linux__
#include <sys/mman.h>
#endif
#ifdef LONGSPAN_X86
#include <cpuid.h>
#endif

#include "problem.h"

#define LONGSPAN_DECLARE(name)              \
  namespace name {                          \
  int attend_forward(const Problem&);       \
  int attend_backward(const Problem&);      \
  int dropout(const Elements&);             \
  }
#ifdef LONGSPAN_AVX512BF16  // the compiler knows these instructions
LONGSPAN_DECLARE(avx512bf16)
#endif
#ifdef LONGSPAN_X86
LONGSPAN_DECLARE(avx512)
LONGSPAN_DECLARE(avx2)
#endif
LONGSPAN_DECLARE(portable)

namespace {

struct Build {
  const char* name;
  bool (*runs_here)();
  bool (*pays_here)();  // asked only where it runs
  AttentionFunction forward, backward;
  ElementsFunction dropout;
};

bool always() { return true; }
#ifdef LONGSPAN_X86
bool has_avx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
}
bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
#endif
#ifdef LONGSPAN_AVX512BF16
bool has_avx512bf16() {
  constexpr unsigned features = 7, part = 1, has_pairs = 1u << 5;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return has_avx512() && __get_cpuid_count(features, part, &eax, &ebx, &ecx, &edx) && (eax & has_pairs);
}
// One instruction on pairs does the work of two on floats. AMD's processors run both at the same rate. Intel's,
// which have tiles for such work, run it at a quarter of that rate (Emerald Rapids), so it would take twice as
// long.
bool is_amd() { return __builtin_cpu_is("amd"); }
#endif

#define LONGSPAN_BUILD(name, runs_here, pays_here) \
  {#name, runs_here, pays_here, name::attend_forward, name::attend_backward, name::dropout}

// Best first.
const Build kBuilds[] = {
#ifdef LONGSPAN_AVX512BF16
    LONGSPAN_BUILD(avx512bf16, has_avx512bf16, is_amd),
#endif
#ifdef LONGSPAN_X86
    LONGSPAN_BUILD(avx512, has_avx512, always),
    LONGSPAN_BUILD(avx2, has_avx2, always),
#endif
    LONGSPAN_BUILD(portable, always, always),
};

const Build* find(const char* name) {
  for (const Build& build : kBuilds)
    if (!strcmp(build.name, name)) return build.runs_here() ? &build : nullptr;
  return nullptr;
}

}  // namespace

extern "C" {

// Names of the builds, best first.
const char* longspan_instruction_sets() {
  return
#ifdef LONGSPAN_AVX512BF16
      "avx512bf16 "
#endif
#ifdef LONGSPAN_X86
      "avx512 avx2 "
#endif
      "portable";
}

int longspan_runs_here(const char* instruction_set) { return find(instruction_set) != nullptr; }

const char* longspan_best_instruction_set() {
  for (const Build& build : kBuilds)
    if (build.runs_here() && build.pays_here()) return build.name;
  return "portable";
}

// Whether the processor says that it has tile instructions (AMX) and then describes no tiles, as some
// virtual machines do. Software that trusts the first half of that dies of an illegal instruction.
int longspan_tiles_are_announced_only() {
#ifdef LONGSPAN_X86
  constexpr unsigned features = 7, tiles = 0x1d, has_tiles = 1u << 24;
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid_count(features, 0, &eax, &ebx, &ecx, &edx) || !(edx & has_tiles)) return 0;
  const bool described = __get_cpuid_count(tiles, 0, &eax, &ebx, &ecx, &edx) && eax > 0;
  return !described;
#else
  return 0;
#endif
}

// Asks the system to back fresh memory with huge pages: a page fault for every 4 KiB of a result would
// otherwise take a good part of the time of a narrow window. A hint; failure changes nothing.
void longspan_prefer_huge_pages(void* memory, int64_t bytes) {
#ifdef __linux__
  constexpr uintptr_t page = 4096;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(memory) + page - 1) / page * page;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(memory) + bytes) / page * page;
  if (end > begin) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory, (void)bytes;
#endif
}

int64_t longspan_problem_size() { return sizeof(Problem); }
int64_t longspan_elements_size() { return sizeof(Elements); }

int longspan_attend_forward(const Problem* problem, const char* instruction_set) {
  const Build* build = find(instruction_set);
  return build ? build->forward(*problem) : kBadInstructionSet;
}

int longspan_attend_backward(const Problem* problem, const char* instruction_set) {
  const Build* build = find(instruction_set);
  return build ? build->backward(*problem) : kBadInstructionSet;
}

int longspan_dropout(const Elements* elements, const char* instruction_set) {
  const Build* build = find(instruction_set);
  return build ? build->dropout(*elements) : kBadInstructionSet;
}

}
