// One instruction set's build of the kernel: the tasks of a call, spread over threads.
//
// Compiled once per instruction set, with LONGSPAN_ISA and LONGSPAN_VECTOR_BYTES set by the build, and
// LONGSPAN_PAIRS where bf16 is multiplied in pairs.
// Results do not depend on the number of threads: the tasks and the order in which their results are
// added are functions of the problem alone.
#include <omp.h>

#include <new>
#include <vector>

#include "backward.h"
#include "elementwise_dropout.h"
#include "few_queries.h"
#include "forward.h"

namespace LONGSPAN_ISA {

// Query blocks that one forward task works through, so that neighbours share packed keys.
constexpr i64 kForwardBlocks = 16;

// The most steps that a block of queries sees.
i64 window_of(const PhaseOfHead& phase) {
  return phase.positions ? phase.key_steps : smaller(phase.key_steps, kBlock + phase.left + phase.right);
}

struct Task {
  i64 example, head, residue, run;
};

// Runs work(worker, task, number in its wave) for every task, wave after wave, a worker per thread.
template <class Worker, class C, class Prepare, class Work>
int spread(const Problem& p, const std::vector<std::vector<Task>>& waves, Prepare prepare, Work work) {
  const PositionTables<C> tables(p);
  int status = kDone;
#pragma omp parallel num_threads(int(p.threads))
  {
    Worker worker(p, tables);
    const bool ready = prepare(worker);
    if (!ready) {
#pragma omp atomic write
      status = kOutOfMemory;
    }
    for (const std::vector<Task>& wave : waves) {
      const i64 count = i64(wave.size());
#pragma omp for schedule(dynamic, 1)
      for (i64 t = 0; t < count; t++)
        if (ready) work(worker, wave[t], t);
    }
  }
  return status;
}

// Few queries: a task for every stretch of every example.
template <class T, class C>
int stream_over_keys(const Problem& p, bool is_backward) {
  const i64 length = stretch_length(p), stretches = (p.keys + length - 1) / length, rows = p.heads * p.queries;
  std::vector<FewQueries<T, C>> workers(p.threads, FewQueries<T, C>(p, is_backward));
  std::vector<Partial<C>> partials(p.batch * stretches * rows);
  std::vector<C> sums(i64(partials.size()) * workers[0].width);
  for (size_t i = 0; i < partials.size(); i++) partials[i].sums = sums.data() + i * workers[0].width;
#pragma omp parallel num_threads(int(p.threads))
  {
    FewQueries<T, C>& worker = workers[omp_get_thread_num()];
#pragma omp for schedule(dynamic, 1)
    for (i64 task = 0; task < p.batch * stretches; task++) {
      const i64 example = task / stretches, first = task % stretches * length, last = smaller(p.keys, first + length);
      Partial<C>* found = partials.data() + task * rows;
      if (is_backward) worker.backward(example, first, last, found);
      else worker.forward(example, first, last, found);
    }
#pragma omp for
    for (i64 example = 0; example < p.batch; example++) {
      const Partial<C>* found = partials.data() + example * stretches * rows;
      if (is_backward) worker.finish_backward(example, found, stretches);
      else worker.finish_forward(example, found, stretches);
    }
  }
  return kDone;
}

template <class T, class C>
int forward(const Problem& p) {
  if (has_few_queries(p)) return stream_over_keys<T, C>(p, false);
  constexpr i64 run = kForwardBlocks * kBlock;
  std::vector<std::vector<Task>> waves(1);
  i64 window = 0;
  for (i64 b = 0; b < p.batch; b++)
    for (i64 from = 0; from < p.queries; from += run)
      for (i64 h = 0; h < p.heads; h++)  // inside: heads of one stretch of the sequence share memory pages
        for (i64 residue = 0; residue < p.patterns[3 * h + 2]; residue++) {
          const PhaseOfHead phase = phase_of(p, b, h, residue);
          if (from < larger<i64>(1, phase.query_count)) waves[0].push_back({b, h, residue, from});
          window = larger(window, window_of(phase));
        }
  return spread<Forward<T, C>, C>(
      p, waves, [&](Forward<T, C>& worker) { return worker.prepare(window); },
      [&](Forward<T, C>& worker, const Task& task, i64) {
        worker.run(task.example, task.head, task.residue, task.run, task.run + run);
      });
}

// Adds up the tasks' shares, in the order of the tasks.
template <class T, class C>
void add_shares(const Problem& p, const std::vector<std::vector<Task>>& waves, Share<C> share) {
  const i64 size = Share<C>::size(p, share.width), members = Share<C>::members(p), width = share.width;
  const i64 bias_size = Share<C>::bias_size(p), keys_size = Share<C>::keys_size(p, width), reach = p.position_reach;
  std::vector<C> memory(size), position_keys(p.heads * keys_size);
  const Share<C> sum{&p, width, memory.data()};
  C* d_bias = static_cast<C*>(p.d_bias);
  for (i64 i = 0; i < p.heads * bias_size; i++) d_bias[i] = 0;
  for (i64 head = 0; head < p.kv_heads; head++)
    for (i64 b = 0; b < p.batch; b++) {
      for (C& x : memory) x = 0;
      i64 task_number = 0;
      for (const std::vector<Task>& wave : waves)
        for (const Task& task : wave) {
          const C* one = share.data + task_number++ * size;
          if (task.example == b && task.head == head)
            for (i64 i = 0; i < size; i++) memory[i] += one[i];
        }
      for (i64 g = 0; p.max_globals && g < p.global_counts[b]; g++) {
        const i64 position = p.global_positions[b * p.max_globals + g];
        auto row_of = [&](const View& view) {
          return static_cast<T*>(view.data) + b * view.batch + head * view.head + position * view.row;
        };
        unpack_row<true>(sum.global_k() + g * width, int(p.head_dim), C(p.scale), row_of(p.d_k));
        unpack_row<true>(sum.global_v() + g * width, int(p.head_dim), C(1), row_of(p.d_v));
      }
      for (i64 i = 0; i < members * bias_size; i++) d_bias[head * members * bias_size + i] += sum.bias(0)[i];
      for (i64 i = 0; i < members * keys_size; i++)
        position_keys[head * members * keys_size + i] += sum.position_keys(0)[i];
    }
  for (i64 row = 0; keys_size && row < p.heads * (2 * reach + 1); row++)
    unpack_row<false>(position_keys.data() + row * width, int(p.head_dim), C(p.scale),
                      static_cast<C*>(p.d_position_keys) + row * p.head_dim);
}

template <class T, class C>
int backward(const Problem& p) {
  if (has_few_queries(p)) return stream_over_keys<T, C>(p, true);
  std::vector<std::vector<Task>> waves(2);
  i64 window = 0, key_rows = 0;
  const i64 members = p.kv_heads ? p.heads / p.kv_heads : 1;
  for (i64 b = 0; b < p.batch; b++)
    for (i64 run = 0, more = 1; more; run++) {
      more = 0;
      for (i64 g = 0; g < p.kv_heads; g++)
        for (i64 residue = 0; residue < p.patterns[3 * g * members + 2]; residue++) {
          const Runs runs(p, phase_of(p, b, g * members, residue));
          if (run >= runs.count) continue;
          more = 1;
          waves[run % 2].push_back({b, g, residue, run});
          window = larger(window, window_of(runs.phase));
          key_rows = larger(key_rows, runs.key_end(run) - runs.key_begin(run));
        }
    }
  const i64 width = (p.head_dim + kLanes<C> - 1) / kLanes<C> * kLanes<C>;
  const i64 size = Share<C>::size(p, width), evens = i64(waves[0].size());
  std::vector<C> shares(size * (evens + i64(waves[1].size())));
  const int status = spread<Backward<T, C>, C>(
      p, waves, [&](Backward<T, C>& worker) { return worker.prepare(window, key_rows); },
      [&](Backward<T, C>& worker, const Task& task, i64 t) {
        const Runs runs(p, phase_of(p, task.example, task.head * members, task.residue));
        const Share<C> share{&p, width, shares.data() + size * (task.run % 2 ? evens + t : t)};
        worker.run(task.example, task.head, task.residue, runs, task.run, share);
      });
  if (status == kDone && size) add_shares<T, C>(p, waves, {&p, width, shares.data()});
  return status;
}

template <class Call>
int by_type(i64 dtype, Call call) {
  try {
    switch (dtype) {
      case kFloat32: return call(float{}, float{});
      case kBFloat16: return call(BFloat16{}, float{});
      case kFloat16: return call(Float16{}, float{});
      default: return call(double{}, double{});
    }
  } catch (const std::bad_alloc&) {
    return kOutOfMemory;
  }
}

// The queries at global positions, which see every key: the second half of a call with mutual globals.
struct GlobalQueries {
  std::vector<i64> patterns;
  std::vector<uint8_t> flags;
  Problem problem;

  explicit GlobalQueries(const Problem& p) : patterns(3 * p.heads), problem(p) {
    constexpr i64 unbounded = i64(1) << 62;
    for (i64 head = 0; head < p.heads; head++) {
      const bool causal = p.patterns[3 * head + 1] == 0;
      patterns[3 * head] = unbounded, patterns[3 * head + 1] = causal ? 0 : unbounded, patterns[3 * head + 2] = 1;
    }
    problem.patterns = patterns.data();
    problem.queries = p.max_globals;
    problem.positions = p.global_positions;
    problem.rows_by_position = problem.add_to_keys = 1;
    // Among keys that are seen anyway, none is global.
    flags.assign(p.key_flags, p.key_flags + p.batch * p.keys);
    for (uint8_t& flag : flags) flag &= kPadded;
    problem.key_flags = flags.data();
    problem.global_positions = problem.global_counts = nullptr;
    problem.max_globals = problem.skip_global_queries = problem.mutual_globals = 0;
  }
};

// Runs a call, or both halves of it.
template <class Run>
int run_halves(const Problem& p, Run run) {
  return by_type(p.dtype, [&](auto t, auto c) {
    const int status = run(p, t, c);
    if (status != kDone || !p.mutual_globals || !p.max_globals) return status;
    return run(GlobalQueries(p).problem, t, c);
  });
}

int attend_forward(const Problem& p) {
  return run_halves(p, [](const Problem& half, auto t, auto c) { return forward<decltype(t), decltype(c)>(half); });
}
int attend_backward(const Problem& p) {
  return run_halves(p, [](const Problem& half, auto t, auto c) { return backward<decltype(t), decltype(c)>(half); });
}
int dropout(const Elements& e) {
  return by_type(e.dtype, [&](auto t, auto c) { return drop_elements<decltype(t), decltype(c)>(e); });
}

}  // namespace LONGSPAN_ISA
