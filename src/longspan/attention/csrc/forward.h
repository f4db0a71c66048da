// The forward pass: online softmax over chunks of keys.
//
// Scores are in units of log 2 (the packed queries carry scale * log2(e)), so the exponential is a
// bare 2**x. Dropout removes pairs from the weighted sum but not from the softmax's denominator.
#pragma once
#include "position_terms.h"

namespace LONGSPAN_ISA {

template <class T, class C>
struct Forward : PositionTerms<T, C> {
  using Base = PositionTerms<T, C>;
  using Base::block, Base::chunk, Base::dead, Base::drop_below, Base::head, Base::head_dim, Base::kGroup,
      Base::kVector, Base::p, Base::phase, Base::q, Base::q_t, Base::query_hash, Base::scores, Base::width;

  C* sums;  // [kBlock][width]: weighted sums of values, not yet normalised
  alignas(64) C highest[kBlock], total[kBlock], shrink[kBlock];

  Forward(const Problem& problem) : Base(problem) {}

  bool prepare(i64 band_rows) {
    i64 size = 0;
    layout(band_rows, size);
    if (!this->allocate(size)) return false;
    layout(band_rows, size = 0);
    return true;
  }
  void layout(i64 band_rows, i64& at) {
    this->place_shared(band_rows, at);
    this->place_position_terms(at);
    this->place(sums, kBlock * width, at);
  }

  // Blocks from <= query < to of a residue class of a head.
  void run(i64 b, i64 which_head, i64 residue, i64 from, i64 to) {
    this->begin_task(b, which_head / (p.heads / p.kv_heads), which_head, residue);
    to = smaller(to, phase.query_count);
    const i64 ahead = smaller(phase.key_steps, phase.query_step + to + phase.right);
    for (i64 at = from; at < to; at += kBlock) run_block(at, ahead);
  }

  void run_block(i64 from, i64 ahead) {
    memset(sums, 0, sizeof(C) * kBlock * width);
    for (int i = 0; i < kBlock; i++) highest[i] = C(kNoScore), total[i] = 0;
    if (this->begin_block(from)) {
      this->pack_queries(p.q, C(p.scale) * kLog2E<C>, q, q_t);
      this->pack_position_query();
      bool first = true;
      this->for_each_chunk(ahead, [&](i64) {
        this->rows_times_lanes([](const Segment<C>& s) { return s.k; }, q_t, scores);
        this->add_position_terms();
        for (int lane = 0; lane < block.count; lane += kGroup) softmax_group(lane);
        if (!first) shrink_sums();
        first = false;
        this->accumulate_lanes(scores, [](const Segment<C>& s) { return s.v; }, sums);
      });
    }
    write_block();
  }

  // Turns the scores of a group of lanes into weights relative to the highest score so far.
  void softmax_group(int lane) {
    int from, whole_from, whole_to, to;
    this->rows_of_group(lane, from, whole_from, whole_to, to);
    for (int r = 0; r < from; r++) store_both(r, lane, Vector<C>{}, Vector<C>{});
    for (int r = to; r < chunk.rows; r++) store_both(r, lane, Vector<C>{}, Vector<C>{});
    if (from >= to) {
      store(shrink + lane, broadcast(C(1)));
      store(shrink + lane + kVector, broadcast(C(1)));
      return;
    }
    Vector<C> old[2] = {load(highest + lane), load(highest + lane + kVector)};
    Vector<C> top[2] = {old[0], old[1]};
    auto masked_maximum = [&](int begin, int end) {
      for (int r = begin; r < end; r++)
        for (int v = 0; v < 2; v++)
          top[v] = select<C>(visible(r, lane + v * kVector), maximum<C>(top[v], score(r, lane + v * kVector)), top[v]);
    };
    masked_maximum(from, whole_from);
    for (int r = whole_from; r < whole_to; r++)
      for (int v = 0; v < 2; v++) top[v] = maximum<C>(top[v], score(r, lane + v * kVector));
    masked_maximum(whole_to, to);

    Vector<C> sum[2];
    for (int v = 0; v < 2; v++) {
      const Vector<C> factor = exp2_of(old[v] - top[v]);
      store(shrink + lane + v * kVector, factor);
      store(highest + lane + v * kVector, top[v]);
      sum[v] = load(total + lane + v * kVector) * factor;
    }
    auto masked_weights = [&](int begin, int end) {
      for (int r = begin; r < end; r++)
        for (int v = 0; v < 2; v++) {
          const int at = lane + v * kVector;
          const Vector<C> weight = select<C>(visible(r, at), exp2_of(score(r, at) - top[v]), Vector<C>{});
          sum[v] += weight;
          store(scores + r * kBlock + at, drop(weight, r, at));
        }
    };
    masked_weights(from, whole_from);
    if (drop_below) {
      for (int r = whole_from; r < whole_to; r++)
        for (int v = 0; v < 2; v++) {
          const int at = lane + v * kVector;
          const Vector<C> weight = exp2_of(score(r, at) - top[v]);
          sum[v] += weight;
          store(scores + r * kBlock + at, drop(weight, r, at));
        }
    } else {
#pragma GCC unroll 2
      for (int r = whole_from; r < whole_to; r++)
        for (int v = 0; v < 2; v++) {
          const int at = lane + v * kVector;
          const Vector<C> weight = exp2_of(score(r, at) - top[v]);
          sum[v] += weight;
          store(scores + r * kBlock + at, weight);
        }
    }
    masked_weights(whole_to, to);
    for (int v = 0; v < 2; v++) store(total + lane + v * kVector, sum[v]);
  }

  Vector<C> score(int r, int lane) const { return load(scores + r * kBlock + lane); }
  Mask<C> visible(int r, int lane) const { return lanes_between<C>(chunk.low[r] - lane, chunk.high[r] - lane); }
  void store_both(int r, int lane, Vector<C> a, Vector<C> b) {
    store(scores + r * kBlock + lane, a);
    store(scores + r * kBlock + lane + kVector, b);
  }
  Vector<C> drop(Vector<C> weight, int r, int lane) const {
    if (!drop_below) return weight;
    return select<C>(kept<C>(query_hash + lane, chunk.position[r], drop_below), weight, Vector<C>{});
  }

  void shrink_sums() {
    for (int i = 0; i < block.count; i++) {
      if (shrink[i] == C(1)) continue;
      for (int d = 0; d < width; d += kVector) store(sums + i * width + d, load(sums + i * width + d) * shrink[i]);
    }
  }

  void write_block() {
    C* lse = static_cast<C*>(p.lse) + (this->example * p.heads + head) * p.queries;
    for (int i = 0; i < block.count; i++) {
      const i64 row = block.row + i * block.row_step;
      T* out = this->template row_of<T>(p.out, head, row);
      if (dead[i] || total[i] == 0) {
        zero_row(out, head_dim);
        lse[row] = -INFINITY;
      } else {
        unpack_row<false>(sums + i * width, head_dim, C(1 / ((1 - p.dropout) * total[i])), out);
        lse[row] = (highest[i] + std::log2(total[i])) * kLn2<C>;
      }
    }
  }
};

}  // namespace LONGSPAN_ISA
