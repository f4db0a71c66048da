// The backward pass: recomputes the weights from the log-sum-exp and turns them into gradients.
//
// With P the weights, keep the dropout mask over its survival rate, and everything per pair:
//   dV += (P keep) dO,   dS = P (keep (dO . V) - delta),   dQ += scale dS K,   dK += scale dS Q,
// where delta = dO . O - d_lse. Five products, each in the form of `matmul.h`. In half precision O is what
// was returned plus what its rounding took: delta is in every pair of its row, so an error there adds up.
//
// Keys are shared by queries of neighbouring runs, so runs are as long as a window is wide and the
// even ones are done before the odd ones: no two runs at work touch the same key, nothing is atomic,
// and every sum has one order. A run gathers its key gradients in memory of its own.
#pragma once
#include "position_terms.h"

namespace LONGSPAN_ISA {

// The smallest number of query blocks of a run.
constexpr i64 kBackwardBlocks = 8;
// Rows between the one that is written and the one that memory is asked for.
constexpr i64 kFlushAhead = 8;

// How the queries of a residue class are cut into runs, and which keys a run reaches.
struct Runs {
  PhaseOfHead phase;
  i64 length, count;

  Runs(const Problem& p, const PhaseOfHead& of) : phase(of) {
    const bool unbounded = phase.positions || phase.left + phase.right >= phase.key_steps;
    // As many runs as fit so that the global keys' partial sums take no more room than d_k itself.
    length = larger(larger(phase.left + phase.right, kBackwardBlocks * kBlock), p.max_globals);
    if (unbounded) length = larger<i64>(1, phase.query_count);
    length = (length + kBlock - 1) / kBlock * kBlock;
    count = larger<i64>(1, (phase.query_count + length - 1) / length);
  }
  i64 key_begin(i64 run) const {
    return phase.positions ? 0 : larger<i64>(0, phase.query_step + run * length - phase.left);
  }
  i64 key_end(i64 run) const {
    if (phase.positions) return phase.key_steps;
    if (phase.query_count == 0) return key_begin(run);
    return smaller(phase.key_steps,
                   phase.query_step + smaller((run + 1) * length, phase.query_count) + phase.right);
  }
};

// Sums that one task contributes to gradients which all tasks share, in memory of its own; they are
// added up in the order of the tasks when all are done.
template <class C>
struct Share {
  const Problem* p;
  i64 width;
  C* data;

  static i64 members(const Problem& p) { return p.kv_heads ? p.heads / p.kv_heads : 1; }
  static i64 bias_size(const Problem& p) { return p.bias ? 2 * p.bias_reach + 1 : 0; }
  static i64 keys_size(const Problem& p, i64 width) {
    return p.position_query.data ? (2 * p.position_reach + 1) * width : 0;
  }
  static i64 size(const Problem& p, i64 width) {
    return 2 * p.max_globals * width + members(p) * (bias_size(p) + keys_size(p, width));
  }
  C* global_k() const { return data; }
  C* global_v() const { return data + p->max_globals * width; }
  C* bias(i64 member) const { return data + 2 * p->max_globals * width + member * bias_size(*p); }
  C* position_keys(i64 member) const { return bias(members(*p)) + member * keys_size(*p, width); }
};

template <class T, class C>
struct Backward : PositionTerms<T, C> {
  using Base = PositionTerms<T, C>;
  using Base::block, Base::chunk, Base::dead, Base::drop_below, Base::head, Base::head_dim, Base::kGroup,
      Base::kNumbers, Base::kVector, Base::kv_head, Base::p, Base::phase, Base::q, Base::query_hash, Base::scores,
      Base::weights, Base::width;
  using E = typename Base::E;

  Lanes<E, C> d_out{};
  C* d_scores;                  // [kChunk][kBlock]
  Weights<E, C> d_weights{};    // the same, to be multiplied
  C* d_q;                       // [kBlock][width]
  C *d_k, *d_v;                 // [key_end - first_row][width]
  Share<C> share;               // what this task adds to gradients that all tasks share
  i64 key_begin = 0, key_end = 0;
  i64 first_row = 0;            // key_begin rounded down to where zipped rows begin
  alignas(64) C lse[kBlock], delta[kBlock];

  Backward(const Problem& problem, const PositionTables<C>& tables) : Base(problem, tables, true) {}

  bool prepare(i64 window, i64 key_rows) {
    i64 size = 0;
    layout(window, key_rows, size);
    if (!this->allocate(size)) return false;
    layout(window, key_rows, size = 0);
    return true;
  }
  void layout(i64 window, i64 key_rows, i64& at) {
    this->place_shared(window, at);
    this->place_position_terms(true, at);
    this->place_lanes(d_out, at);
    this->place_weights(d_scores, d_weights, true, true, at);
    this->place(d_q, kBlock * width, at);
    this->place(d_k, (key_rows + kNumbers - 1) * width, at);
    this->place(d_v, (key_rows + kNumbers - 1) * width, at);
  }

  // One run of a residue class, for all query heads of a key/value head.
  void run(i64 b, i64 which_kv_head, i64 residue, const Runs& runs, i64 run, const Share<C>& task_share) {
    const i64 members = p.heads / p.kv_heads;
    this->begin_task(b, which_kv_head, which_kv_head * members, residue);
    key_begin = runs.key_begin(run);
    key_end = runs.key_end(run);
    first_row = key_begin / kNumbers * kNumbers;
    share = task_share;
    memset(d_k, 0, sizeof(C) * (key_end - first_row) * width);
    memset(d_v, 0, sizeof(C) * (key_end - first_row) * width);
    if (this->has_product) memset(this->d_rows, 0, sizeof(C) * this->d_rows_size);
    const i64 to = smaller((run + 1) * runs.length, phase.query_count);
    for (i64 member = 0; member < members; member++) {
      head = which_kv_head * members + member;
      for (i64 at = run * runs.length; at < to; at += kBlock) run_block(at, member);
      if (this->has_product) this->fold_product_gradient(share.position_keys(member));
      if (run == runs.count - 1) clear_absent();
    }
    // An odd run adds to what its even neighbours left; all else is written for the first time.
    const bool odd = run % 2;
    const i64 before = odd ? runs.key_end(run - 1) : 0;
    const i64 after = odd && run + 1 < runs.count ? runs.key_begin(run + 1) : phase.key_steps;
    for (i64 t = key_begin; t < key_end; t++) {
      const bool add = t < before || t >= after;
      if (t + kFlushAhead < key_end) {
        this->template prefetch_row<1>(p.d_k, kv_head, phase.position(t + kFlushAhead));
        this->template prefetch_row<1>(p.d_v, kv_head, phase.position(t + kFlushAhead));
      }
      flush(p.d_k, d_k, t, C(p.scale), add);
      flush(p.d_v, d_v, t, C(1), add);
    }
    if (run == 0) clear_keys(0, key_begin);
    if (run == runs.count - 1) clear_keys(key_end, phase.key_steps);
  }

  void clear_absent() {
    for (i64 row = phase.query_count; phase.positions && row < p.queries; row++) {
      zero_row(this->template row_of<T>(p.d_q, head, row), head_dim);
      if (this->has_product) zero_row(this->template row_of<T>(p.d_position_query, head, row), head_dim);
    }
  }

  void flush(const View& view, const C* from, i64 step, C factor, bool add) {
    T* row = this->template row_of<T>(view, kv_head, phase.position(step));
    from += (step - first_row) * width;
    if (add) unpack_row<true>(from, head_dim, factor, row);
    else unpack_row<false>(from, head_dim, factor, row);
  }
  void clear_keys(i64 from, i64 to) {
    for (i64 t = from; t < to; t++) {
      zero_row(this->template row_of<T>(p.d_k, kv_head, phase.position(t)), head_dim);
      zero_row(this->template row_of<T>(p.d_v, kv_head, phase.position(t)), head_dim);
    }
  }

  void run_block(i64 from, i64 member) {
    memset(d_q, 0, sizeof(C) * kBlock * width);
    if (this->has_product) memset(this->d_position_query, 0, sizeof(C) * kBlock * width);
    if (this->begin_block(from)) {
      this->pack_queries(p.q, C(p.scale) * kLog2E<C>, q);
      this->pack_queries(p.d_out, C(1), d_out);
      this->pack_position_query();
      load_row_constants();
      this->for_each_chunk([&](i64 first_global) {
        chunk.segments[0].dk = share.global_k() + first_global * width;
        chunk.segments[0].dv = share.global_v() + first_global * width;
        for (Segment<E, C>* segment = chunk.segments + 1; segment < chunk.segments + 3; segment++) {
          const i64 row = chunk.band_step + segment->begin - chunk.band - first_row;
          segment->dk = d_k + row * width;
          segment->dv = d_v + row * width;
        }
        this->rows_times_lanes([](const auto& segment) { return segment.k; }, q, scores);
        this->add_position_terms();
        this->rows_times_lanes([](const auto& segment) { return segment.v; }, d_out, d_scores);
        for (int lane = 0; lane < block.count; lane += kGroup) differentiate_group(lane);
        this->pack_weights(weights);
        this->pack_weights(d_weights);
        this->accumulate_rows(weights, d_out, [](const auto& segment) { return segment.dv; });
        this->accumulate_rows(d_weights, q, [](const auto& segment) { return segment.dk; });
        this->accumulate_lanes(d_weights, d_q);
        if (this->has_bias) this->add_bias_gradient(d_scores, share.bias(member));
        if (this->has_product) this->add_product_gradient(d_scores, share.position_keys(member));
      });
    }
    write_rows(p.d_q, d_q);
    if (this->has_product) write_rows(p.d_position_query, this->d_position_query);
  }

  void write_rows(const View& view, const C* from) {
    for (int i = 0; i < block.count; i++) {
      T* row = this->template row_of<T>(view, head, block.row + i * block.row_step);
      if (dead[i]) zero_row(row, head_dim);
      else unpack_row<false>(from + i * width, head_dim, C(p.scale), row);
    }
  }

  // The log-sum-exp in units of log 2, and delta, of every lane. A lane without a query gets a
  // log-sum-exp so large that its weights vanish.
  void load_row_constants() {
    const i64 base = (this->example * p.heads + head) * p.queries;
    const C* row_lse = static_cast<const C*>(p.lse) + base;
    const C* row_d_lse = p.d_lse ? static_cast<const C*>(p.d_lse) + base : nullptr;
    for (int i = 0; i < kBlock; i++) {
      lse[i] = -C(kNoScore), delta[i] = 0;
      if (i >= block.count || dead[i]) continue;
      const i64 row = block.row + i * block.row_step;
      if (row_lse[row] == -INFINITY) continue;
      C sum = times_d_out(this->template row_of<const T>(p.out, head, row), i);
      if (p.out_rest.data) sum += times_d_out(this->template row_of<const T>(p.out_rest, head, row), i);
      lse[i] = row_lse[row] * kLog2E<C>;
      delta[i] = sum - (row_d_lse ? row_d_lse[row] : C(0));
    }
  }
  C times_d_out(const T* row, int lane) const {
    Vector<C> sum{};
    int d = 0;
    for (; d + kVector <= head_dim; d += kVector)
      sum += load_wide(row + d) * load_zipped(d_out.zipped, lane, width, d);
    if (d < head_dim) {
      const Vector<C> last = load_zipped(d_out.zipped, lane, width, d);
      for (int j = 0; d + j < head_dim; j++) sum[0] += widen(row[d + j]) * last[j];
    }
    return sum_of_lanes<C>(sum);
  }

  // scores -> weights (after dropout), d_scores -> gradients of the scores; 0 for pairs that are not.
  void differentiate_group(int lane) {
    this->for_each_stretch(lane, [&](int begin, int end, Seen seen) {
      for (int r = begin; r < end; r++)
        for (int v = 0; v < 2; v++) {
          const int at = lane + v * kVector;
          Vector<C> weight{}, d_score{};
          if (seen != kNot) differentiate(r, at, weight, d_score);
          if (seen == kPartly) {
            const Mask<C> visible = lanes_between<C>(chunk.low[r] - at, chunk.high[r] - at);
            weight = select<C>(visible, weight, Vector<C>{});
            d_score = select<C>(visible, d_score, Vector<C>{});
          }
          store(scores + r * kBlock + at, weight);
          store(d_scores + r * kBlock + at, d_score);
        }
    });
  }

  LONGSPAN_INLINE void differentiate(int r, int lane, Vector<C>& weight, Vector<C>& d_score) const {
    const Vector<C> probability = exp2_of(load(scores + r * kBlock + lane) - load(lse + lane));
    Vector<C> d_weight = load(d_scores + r * kBlock + lane);
    weight = probability;
    if (drop_below) {
      const Mask<C> keep = kept<C>(query_hash + lane, chunk.position[r], drop_below);
      const C factor = C(1 / (1 - p.dropout));
      weight = select<C>(keep, weight * factor, Vector<C>{});
      d_weight = select<C>(keep, d_weight * factor, Vector<C>{});
    }
    d_score = probability * (d_weight - load(delta + lane));
  }
};

}  // namespace LONGSPAN_ISA
