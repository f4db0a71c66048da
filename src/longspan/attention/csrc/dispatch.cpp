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
#ifdef LONGSPAN_X86
LONGSPAN_DECLARE(avx512)
LONGSPAN_DECLARE(avx2)
#endif
LONGSPAN_DECLARE(portable)

namespace {

struct Build {
  const char* name;
  bool (*runs_here)();
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

// Best first.
const Build kBuilds[] = {
#ifdef LONGSPAN_X86
    {"avx512", has_avx512, avx512::attend_forward, avx512::attend_backward, avx512::dropout},
    {"avx2", has_avx2, avx2::attend_forward, avx2::attend_backward, avx2::dropout},
#endif
    {"portable", always, portable::attend_forward, portable::attend_backward, portable::dropout},
};

const Build* find(const char* name) {
  for (const Build& build : kBuilds)
    if (!strcmp(build.name, name)) return build.runs_here() ? &build : nullptr;
  return nullptr;
}

}  // namespace

extern "C" {

const char* longspan_instruction_sets() {
#ifdef LONGSPAN_X86
  return "avx512 avx2 portable";
#else
  return "portable";
#endif
}

const char* longspan_best_instruction_set() {
  for (const Build& build : kBuilds)
    if (build.runs_here()) return build.name;
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
