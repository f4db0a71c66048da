// The forward pass: online softmax over chunks of keys.
//
// Scores are in units of log 2 (products with the packed queries carry scale * log2(e)), so the exponential
// is a bare 2**x. Dropout removes pairs from the weighted sum but not from the softmax's denominator.
#pragma once
#include "position_terms.h"

namespace LONGSPAN_ISA {

// How far, in powers of two, a score may rise above the reference before the reference follows: the
// sums stay far from overflow, and rescaling them is rare.
template <class C>
constexpr C kSlack = C(8);

template <class T, class C>
struct Forward : PositionTerms<T, C> {
  using Base = PositionTerms<T, C>;
  using Base::block, Base::chunk, Base::dead, Base::drop_below, Base::head, Base::head_dim, Base::kGroup,
      Base::kVector, Base::p, Base::phase, Base::q, Base::query_hash, Base::scores, Base::weights, Base::width;

  C* sums;  // [kBlock][width]: weighted sums of values, not yet normalised
  alignas(64) C highest[kBlock], total[kBlock], shrink[kBlock];

  Forward(const Problem& problem, const PositionTables<C>& tables) : Base(problem, tables, false) {}

  bool prepare(i64 window) {
    i64 size = 0;
    layout(window, size);
    if (!this->allocate(size)) return false;
    layout(window, size = 0);
    return true;
  }
  void layout(i64 window, i64& at) {
    this->place_shared(window, at);
    this->place_position_terms(false, at);
    this->place(sums, kBlock * width, at);
  }

  // Blocks from <= query < to of a residue class of a head.
  void run(i64 b, i64 which_head, i64 residue, i64 from, i64 to) {
    this->begin_task(b, which_head / (p.heads / p.kv_heads), which_head, residue);
    to = smaller(to, phase.query_count);
    for (i64 at = from; at < to; at += kBlock) run_block(at);
    if (to == phase.query_count) clear_absent();
  }

  void run_block(i64 from) {
    memset(sums, 0, sizeof(C) * kBlock * width);
    for (int i = 0; i < kBlock; i++) highest[i] = C(kNoScore), total[i] = 0;
    if (this->begin_block(from)) {
      this->pack_queries(p.q, C(p.scale) * kLog2E<C>, q);
      this->pack_position_query();
      bool first = true;
      this->for_each_chunk([&](i64) {
        this->rows_times_lanes([](const auto& segment) { return segment.k; }, q, scores);
        this->add_position_terms();
        for (int lane = 0; lane < block.count; lane += kGroup) softmax_group(lane);
        if (!first) shrink_sums();
        first = false;
        this->pack_weights(weights);
        this->accumulate_lanes(weights, sums);
      });
    }
    write_block();
  }

  // Turns the scores of a group of lanes into weights relative to the reference score so far.
  void softmax_group(int lane) {
    Vector<C> old[2] = {load(highest + lane), load(highest + lane + kVector)};
    Vector<C> top[2] = {old[0], old[1]};
    this->for_each_stretch(lane, [&](int begin, int end, Seen seen) {
      if (seen == kWhole) raise_top(scores + begin * kBlock + lane, end - begin, top);
      if (seen == kPartly)
        for (int r = begin; r < end; r++)
          for (int v = 0; v < 2; v++) {
            const int at = lane + v * kVector;
            top[v] = select<C>(visible(r, at), maximum<C>(top[v], score(r, at)), top[v]);
          }
    });
    Vector<C> sum[2];
    for (int v = 0; v < 2; v++) {
      // A reference a little below the maximum does as well, and seldom has to move.
      const Mask<C> moves = top[v] > old[v] + broadcast(kSlack<C>);
      top[v] = select<C>(moves, top[v], old[v]);
      const Vector<C> factor = select<C>(moves, exp2_of(old[v] - top[v]), broadcast(C(1)));
      store(shrink + lane + v * kVector, factor);
      store(highest + lane + v * kVector, top[v]);
      sum[v] = load(total + lane + v * kVector) * factor;
    }
    this->for_each_stretch(lane, [&](int begin, int end, Seen seen) {
      if (seen == kWhole && !drop_below) {
        weigh_rows(scores + begin * kBlock + lane, end - begin, top, sum);
      } else if (seen != kNot) {
        for (int r = begin; r < end; r++)
          for (int v = 0; v < 2; v++) {
            const int at = lane + v * kVector;
            const Vector<C> weight = select<C>(visible(r, at), exp2_of(score(r, at) - top[v]), Vector<C>{});
            sum[v] += weight;
            store(scores + r * kBlock + at, drop(weight, r, at));
          }
      } else {
        for (int r = begin; r < end; r++)
          for (int v = 0; v < 2; v++) store(scores + r * kBlock + lane + v * kVector, Vector<C>{});
      }
    });
    for (int v = 0; v < 2; v++) store(total + lane + v * kVector, sum[v]);
  }

  // The two inner loops of the softmax, over rows that a whole group of lanes sees. Everything they
  // touch is local, so that it stays in registers.
  static LONGSPAN_INLINE void raise_top(const C* at, int rows, Vector<C> (&top)[2]) {
    Vector<C> a = top[0], b = top[1], c = a, d = b;
    int r = 0;
    for (; r + 1 < rows; r += 2, at += 2 * kBlock) {
      a = maximum<C>(a, load(at)), b = maximum<C>(b, load(at + kVector));
      c = maximum<C>(c, load(at + kBlock)), d = maximum<C>(d, load(at + kBlock + kVector));
    }
    if (r < rows) a = maximum<C>(a, load(at)), b = maximum<C>(b, load(at + kVector));
    top[0] = maximum<C>(a, c), top[1] = maximum<C>(b, d);
  }
  static LONGSPAN_INLINE void weigh_rows(C* at, int rows, const Vector<C> (&top)[2], Vector<C> (&sum)[2]) {
    const Vector<C> top0 = top[0], top1 = top[1];
    Vector<C> sum0 = sum[0], sum1 = sum[1];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++, at += kBlock) {
      const Vector<C> a = exp2_of(load(at) - top0), b = exp2_of(load(at + kVector) - top1);
      sum0 += a, sum1 += b;
      store(at, a), store(at + kVector, b);
    }
    sum[0] = sum0, sum[1] = sum1;
  }

  Vector<C> score(int r, int lane) const { return load(scores + r * kBlock + lane); }
  Mask<C> visible(int r, int lane) const {
    if (chunk.whole) return ~Mask<C>{};
    return lanes_between<C>(chunk.low[r] - lane, chunk.high[r] - lane);
  }
  Vector<C> drop(Vector<C> weight, int r, int lane) const {
    if (!drop_below) return weight;
    return select<C>(kept<C>(query_hash + lane, chunk.position[r], drop_below), weight, Vector<C>{});
  }

  // Brings the sums so far to the references that have moved.
  void shrink_sums() {
    for (int i = 0; i < block.count; i++) {
      if (shrink[i] == C(1)) continue;
      for (int d = 0; d < width; d += kVector) store(sums + i * width + d, load(sums + i * width + d) * shrink[i]);
    }
  }

  C* lse_rows() const { return static_cast<C*>(p.lse) + (this->example * p.heads + head) * p.queries; }

  // Rows of queries that do not exist, after the explicit positions of the others.
  void clear_absent() {
    for (i64 row = phase.query_count; phase.positions && row < p.queries; row++) clear_row(row);
  }
  void clear_row(i64 row) {
    zero_row(this->template row_of<T>(p.out, head, row), head_dim);
    if (p.out_rest.data) zero_row(this->template row_of<T>(p.out_rest, head, row), head_dim);
    lse_rows()[row] = -INFINITY;
  }

  void write_block() {
    for (int i = 0; i < block.count; i++) {
      const i64 row = block.row + i * block.row_step;
      if (dead[i] || total[i] == 0) {
        clear_row(row);
        continue;
      }
      const C factor = C(1 / ((1 - p.dropout) * total[i]));
      T* out = this->template row_of<T>(p.out, head, row);
      unpack_row<false>(sums + i * width, head_dim, factor, out);
      if (p.out_rest.data)
        unpack_rest(sums + i * width, head_dim, factor, out, this->template row_of<T>(p.out_rest, head, row));
      lse_rows()[row] = (highest[i] + std::log2(total[i])) * kLn2<C>;
    }
  }
};

}  // namespace LONGSPAN_ISA
