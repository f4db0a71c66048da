// One instruction set's build of the kernel: the tasks of a call, spread over threads.
//
// Compiled once per instruction set, with LONGSPAN_ISA, LONGSPAN_VECTOR_BYTES and LONGSPAN_TILE_ROWS
// set by the build. Results do not depend on the number of threads: the tasks and the order in which
// their results are added are functions of the problem alone.
#include <new>
#include <vector>

#include "backward.h"
#include "forward.h"

namespace LONGSPAN_ISA {

// Query blocks that one forward task works through, so that neighbours share packed keys.
constexpr i64 kForwardBlocks = 4;

struct ForwardTask {
  i64 example, head, residue, from;
};

template <class T, class C>
int forward(const Problem& p) {
  constexpr i64 run = kForwardBlocks * kBlock;
  // Heads innermost: heads of one stretch of the sequence share memory pages.
  std::vector<ForwardTask> tasks;
  i64 band_rows = kChunk;
  for (i64 b = 0; b < p.batch; b++)
    for (i64 from = 0; from < p.queries; from += run)
      for (i64 h = 0; h < p.heads; h++)
        for (i64 residue = 0; residue < p.patterns[3 * h + 2]; residue++) {
          const PhaseOfHead phase = phase_of(p, b, h, residue);
          if (from < phase.query_count) tasks.push_back({b, h, residue, from});
          band_rows = larger(band_rows, smaller<i64>(phase.key_steps, smaller<i64>(1024, run + phase.left + phase.right)));
        }
  const PositionTables<C> tables{};
  const i64 count = i64(tasks.size());
  int status = kDone;
#pragma omp parallel num_threads(int(p.threads))
  {
    Forward<T, C> worker(p, tables);
    const bool ready = worker.prepare(band_rows);
    if (!ready) {
#pragma omp atomic write
      status = kOutOfMemory;
    }
#pragma omp for schedule(dynamic, 1)
    for (i64 t = 0; t < count; t++)
      if (ready) worker.run(tasks[t].example, tasks[t].head, tasks[t].residue, tasks[t].from, tasks[t].from + run);
  }
  return status;
}

template <template <class, class> class>
struct Unused;

int attend_forward(const Problem& p) {
  try {
    switch (p.dtype) {
      case kFloat32: return forward<float, float>(p);
      case kBFloat16: return forward<BFloat16, float>(p);
      case kFloat16: return forward<Float16, float>(p);
      default: return forward<double, double>(p);
    }
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

}  // namespace LONGSPAN_ISA
namespace LONGSPAN_ISA { int attend_backward(const Problem&) { return 1; } }
