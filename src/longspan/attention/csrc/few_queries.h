// Few queries that may see every key, as a document's global tokens do: streamed over the keys.
//
// A block of 64 lanes would be nearly empty, and what such a call costs is reading K and V. So a task takes
// a stretch of the sequence with all heads of all queries, and reads rows whole, in the order of memory. The
// softmax of a stretch is relative to its own highest score; stretches are put together at the end, in order.
// Refused: relative terms, and heads of which only some are causal; `worker.h` has both.
#pragma once
#include <vector>

#include "convert.h"
#include "dropout.h"
#include "geometry.h"

namespace LONGSPAN_ISA {

// Above this, lanes pay.
constexpr i64 kFewQueries = 8;
// Keys that are worked on together: their rows, of all heads, stay in the second-level cache.
constexpr int kStretchChunk = 32;
// The most stretches of a sequence, and the fewest keys of one.
constexpr i64 kStretches = 64, kStretchKeys = 256;

inline bool has_few_queries(const Problem& p) {
  if (!p.positions || p.queries > kFewQueries || !p.kv_heads || p.bias || p.position_query.data) return false;
  for (i64 head = 1; head < p.heads; head++)
    if ((p.patterns[3 * head + 1] == 0) != (p.patterns[1] == 0)) return false;
  return true;
}
inline i64 stretch_length(const Problem& p) {
  return larger(kStretchKeys, (p.keys + kStretches - 1) / kStretches);
}

// What a task finds about one head of one query, over its stretch.
template <class C>
struct Partial {
  C highest, total;  // forward: the highest score, and the sum of weights relative to it
  C* sums;           // [width] forward: weighted sum of values; backward: gradient of the query, over scale
};

template <class T, class C>
struct FewQueries {
  static constexpr int kVector = kLanes<C>;
  static_assert(kStretchChunk % kVector == 0, "a chunk is a whole number of vectors");
  using Integer = typename IntegerOf<C>::type;

  const Problem& p;
  const int head_dim, width;
  const i64 members, rows;  // query heads of a key/value head; heads times queries
  const uint32_t drop_below;

  // The example at hand.
  i64 example = -1;
  i64 begin[kFewQueries], end[kFewQueries];  // keys that a query sees, but for padding; none if it is padded
  std::vector<C> q, d_out;                   // [rows][width]; q times scale and log2(e)
  std::vector<C> lse, delta;                 // [rows]
  std::vector<uint32_t> query_hash;          // [rows]

  // The chunk at hand.
  i64 from = 0, to = 0;
  Integer seen[kFewQueries][kStretchChunk];  // -1 where the query sees the key, else 0
  std::vector<C> scores, d_scores;           // [rows][kStretchChunk]
  std::vector<C> row, d_k_row, d_v_row;      // [width]

  FewQueries(const Problem& problem, bool backward)
      : p(problem),
        head_dim(int(p.head_dim)),
        width((head_dim + kVector - 1) / kVector * kVector),
        members(p.heads / p.kv_heads),
        rows(p.heads * p.queries),
        drop_below(uint32_t(larger(0.0, p.dropout * 4294967296.0 + 0.5))),
        q(rows * width),
        query_hash(rows),
        scores(rows * kStretchChunk),
        row(width) {
    if (!backward) return;
    for (std::vector<C>* per_row : {&lse, &delta}) per_row->resize(rows);
    for (std::vector<C>* one_row : {&d_k_row, &d_v_row}) one_row->resize(width);
    d_out.resize(rows * width);
    d_scores.resize(rows * kStretchChunk);
  }

  template <class U>
  U* row_of(const View& view, i64 head, i64 at) const {
    return static_cast<U*>(view.data) + example * view.batch + head * view.head + at * view.row;
  }
  // A row in the compute type, zeros from head_dim on. The next call may overwrite it.
  const C* unpacked(const View& view, i64 head, i64 at) {
    pack_row(row_of<const T>(view, head, at), head_dim, width, row.data());
    return row.data();
  }
  // Of rows of the compute type, or of a tensor's as they are, where these are whole vectors.
  template <class Row>
  LONGSPAN_INLINE C dot(const C* a, const Row* b) const {
    Vector<C> sum{};
    for (int d = 0; d < width; d += kVector) sum += load(a + d) * load_wide(b + d);
    return sum_of_lanes<C>(sum);
  }
  template <class Row>
  LONGSPAN_INLINE void add(C factor, const Row* from_row, C* to_row) const {
    for (int d = 0; d < width; d += kVector) store(to_row + d, load(to_row + d) + load_wide(from_row + d) * factor);
  }

  void begin_example(i64 b) {
    if (example == b) return;
    example = b;
    const i64* positions = p.positions + b * p.queries;
    const i64* document_begin = p.document_begin ? p.document_begin + b * p.document_batch : nullptr;
    const i64* document_end = p.document_end ? p.document_end + b * p.document_batch : nullptr;
    for (i64 i = 0; i < p.queries; i++) {
      const i64 position = positions[i];
      begin[i] = end[i] = 0;
      if (position < 0 || padded(position)) continue;
      begin[i] = document_begin ? document_begin[position] : 0;
      end[i] = document_end ? document_end[position] : p.keys;
      if (p.patterns[1] == 0) end[i] = smaller(end[i], position + 1);
    }
    for (i64 head = 0; head < p.heads; head++)
      for (i64 i = 0; i < p.queries; i++) {
        C* to_row = q.data() + (head * p.queries + i) * width;
        memset(to_row, 0, sizeof(C) * width);
        if (end[i] > begin[i]) add(C(p.scale) * kLog2E<C>, unpacked(p.q, head, query_row(i)), to_row);
        query_hash[head * p.queries + i] =
            positions[i] < 0 ? 0 : dropout_query(dropout_stream(p.seed, b * p.heads + head), positions[i]);
      }
  }
  // Of query i in tensors of queries.
  i64 query_row(i64 i) const { return p.rows_by_position ? p.positions[example * p.queries + i] : i; }
  bool has_row(i64 i) const { return query_row(i) >= 0; }
  i64 lse_index(i64 at) const {
    return (example * p.heads + at / p.queries) * query_rows(p) + query_row(at % p.queries);
  }
  bool padded(i64 position) const { return p.key_flags && (p.key_flags[example * p.keys + position] & kPadded); }

  // The rule of `Request.sees`, for a query without a window.
  void begin_chunk(i64 first, i64 last) {
    from = first, to = last;
    for (i64 i = 0; i < p.queries; i++)
      for (int r = 0; r < kStretchChunk; r++) {
        const i64 key = from + r;
        seen[i][r] = key < to && key >= begin[i] && key < end[i] && !padded(key) ? -1 : 0;
      }
  }

  // Calls visit(row, row of `view`, key) for every head of every query that sees a key of the chunk.
  template <class Visit>
  void for_each_pair(const View& view, Visit visit) {
    if (head_dim == width)
      for_each_row_pair([&](i64 kv_head, i64 key) { return row_of<const T>(view, kv_head, key); }, visit);
    else for_each_row_pair([&](i64 kv_head, i64 key) { return unpacked(view, kv_head, key); }, visit);
  }
  template <class RowAt, class Visit>
  LONGSPAN_INLINE void for_each_row_pair(RowAt row_at, Visit visit) {
    for (int r = 0; r < to - from; r++)
      for (i64 kv_head = 0; kv_head < p.kv_heads; kv_head++) {
        const auto* there = row_at(kv_head, from + r);
        for (i64 head = kv_head * members; head < (kv_head + 1) * members; head++)
          for (i64 i = 0; i < p.queries; i++)
            if (seen[i][r]) visit(head * p.queries + i, there, r);
      }
  }
  // result[row][key] = with[row] . view[key]
  void products(const View& view, const C* with, C* result) {
    for_each_pair(view, [&](i64 at, const auto* there, int r) {
      result[at * kStretchChunk + r] = dot(with + at * width, there);
    });
  }

  Mask<C> sees(i64 at, int r) const { return load(seen[at % p.queries] + r); }
  Vector<C> drop(Vector<C> weight, i64 at, int r) const {
    if (!drop_below) return weight;
    uint32_t hash[kVector];
    for (int lane = 0; lane < kVector; lane++) hash[lane] = query_hash[at] ^ uint32_t(from + r + lane) * kGolden;
    return select<C>(kept<C>(hash, 0, drop_below), weight, Vector<C>{});
  }

  // Keys first <= key < last, into partials[rows].
  void forward(i64 b, i64 first, i64 last, Partial<C>* partials) {
    begin_example(b);
    for (i64 at = 0; at < rows; at++) partials[at].highest = C(kNoScore), partials[at].total = 0;
    for (i64 key = first; key < last; key += kStretchChunk) {
      begin_chunk(key, smaller(last, key + kStretchChunk));
      products(p.k, q.data(), scores.data());
      for (i64 at = 0; at < rows; at++) weigh(at, partials[at]);
      for_each_pair(p.v, [&](i64 at, const auto* there, int r) {
        add(scores[at * kStretchChunk + r], there, partials[at].sums);
      });
    }
  }
  // scores -> weights relative to the highest score so far; what was summed before follows it.
  void weigh(i64 at, Partial<C>& partial) {
    C* score = scores.data() + at * kStretchChunk;
    Vector<C> top = broadcast(partial.highest), sum{};
    for (int r = 0; r < kStretchChunk; r += kVector)
      top = select<C>(sees(at, r), maximum<C>(top, load(score + r)), top);
    C highest = top[0];
    for (int lane = 1; lane < kVector; lane++)
      if (!(top[lane] <= highest)) highest = top[lane];
    for (int r = 0; r < kStretchChunk; r += kVector) {
      const Vector<C> weight = select<C>(sees(at, r), exp2_of(load(score + r) - broadcast(highest)), Vector<C>{});
      sum += weight;
      store(score + r, drop(weight, at, r));
    }
    if (highest != partial.highest) {
      const C shrink = std::exp2(partial.highest - highest);
      for (int d = 0; d < width; d++) partial.sums[d] *= shrink;
      partial.total *= shrink;
      partial.highest = highest;
    }
    partial.total += sum_of_lanes<C>(sum);
  }

  // Puts the stretches of an example together: partials[stretch][row].
  void finish_forward(i64 b, const Partial<C>* partials, i64 stretches) {
    example = b;
    for (i64 at = 0; at < rows; at++) {
      if (!has_row(at % p.queries)) continue;
      C highest = C(kNoScore), total = 0;
      for (i64 s = 0; s < stretches; s++)
        if (!(partials[s * rows + at].highest <= highest)) highest = partials[s * rows + at].highest;
      for (C& x : row) x = 0;
      for (i64 s = 0; s < stretches; s++) {
        const Partial<C>& partial = partials[s * rows + at];
        if (partial.total == 0) continue;
        const C shrink = std::exp2(partial.highest - highest);
        total += partial.total * shrink;
        add(shrink, partial.sums, row.data());
      }
      const i64 head = at / p.queries, query = query_row(at % p.queries);
      const bool sees_some = total != 0;
      const C factor = sees_some ? C(1 / ((1 - p.dropout) * total)) : C(0);
      T* out = row_of<T>(p.out, head, query);
      unpack_row<false>(row.data(), head_dim, factor, out);
      if (p.out_rest.data) unpack_rest(row.data(), head_dim, factor, out, row_of<T>(p.out_rest, head, query));
      static_cast<C*>(p.lse)[lse_index(at)] = sees_some ? (highest + std::log2(total)) * kLn2<C> : -INFINITY;
    }
  }

  // Writes the gradients of the stretch's keys and values; those of the queries go into partials[rows].
  void backward(i64 b, i64 first, i64 last, Partial<C>* partials) {
    if (example != b) begin_example(b), load_row_constants();
    for (i64 key = first; key < last; key += kStretchChunk) {
      begin_chunk(key, smaller(last, key + kStretchChunk));
      products(p.k, q.data(), scores.data());
      products(p.v, d_out.data(), d_scores.data());
      for (i64 at = 0; at < rows; at++) differentiate(at);
      for_each_pair(p.k, [&](i64 at, const auto* there, int r) {
        add(d_scores[at * kStretchChunk + r], there, partials[at].sums);
      });
      write_keys();
    }
  }
  void load_row_constants() {
    for (i64 at = 0; at < rows; at++) {
      const i64 head = at / p.queries, i = at % p.queries, query = query_row(i);
      C* d_row = d_out.data() + at * width;
      lse[at] = delta[at] = 0;
      memset(d_row, 0, sizeof(C) * width);
      if (end[i] == begin[i]) continue;
      lse[at] = static_cast<const C*>(p.lse)[lse_index(at)] * kLog2E<C>;
      add(C(1), unpacked(p.d_out, head, query), d_row);
      delta[at] = dot(d_row, unpacked(p.out, head, query));
      if (p.out_rest.data) delta[at] += dot(d_row, unpacked(p.out_rest, head, query));
      if (p.d_lse) delta[at] -= static_cast<const C*>(p.d_lse)[lse_index(at)];
    }
  }
  // scores -> weights (after dropout), d_scores -> gradients of the scores; 0 for pairs that are not.
  void differentiate(i64 at) {
    const C rate = C(1 / (1 - p.dropout));
    for (int r = 0; r < kStretchChunk; r += kVector) {
      C *score = scores.data() + at * kStretchChunk + r, *d_score = d_scores.data() + at * kStretchChunk + r;
      const Vector<C> weight = select<C>(sees(at, r), exp2_of(load(score) - broadcast(lse[at])), Vector<C>{});
      const Vector<C> d_weight = drop(load(d_score) * rate, at, r) - broadcast(delta[at]);
      store(score, drop(weight * rate, at, r));
      store(d_score, select<C>(sees(at, r), weight * d_weight, Vector<C>{}));
    }
  }
  void write_keys() {
    for (int r = 0; r < to - from; r++)
      for (i64 kv_head = 0; kv_head < p.kv_heads; kv_head++) {
        for (C& x : d_k_row) x = 0;
        for (C& x : d_v_row) x = 0;
        for (i64 at = kv_head * members * p.queries; at < (kv_head + 1) * members * p.queries; at++) {
          if (!seen[at % p.queries][r]) continue;
          add(d_scores[at * kStretchChunk + r], q.data() + at * width, d_k_row.data());
          add(scores[at * kStretchChunk + r], d_out.data() + at * width, d_v_row.data());
        }
        // The packed queries carry scale * log2(e), of which the gradient has only scale.
        T *d_k = row_of<T>(p.d_k, kv_head, from + r), *d_v = row_of<T>(p.d_v, kv_head, from + r);
        if (p.add_to_keys) {
          unpack_row<true>(d_k_row.data(), head_dim, kLn2<C>, d_k);
          unpack_row<true>(d_v_row.data(), head_dim, C(1), d_v);
        } else {
          unpack_row<false>(d_k_row.data(), head_dim, kLn2<C>, d_k);
          unpack_row<false>(d_v_row.data(), head_dim, C(1), d_v);
        }
      }
  }

  // Adds up the stretches' gradients of an example's queries.
  void finish_backward(i64 b, const Partial<C>* partials, i64 stretches) {
    example = b;
    for (i64 at = 0; at < rows; at++) {
      if (!has_row(at % p.queries)) continue;
      for (C& x : row) x = 0;
      for (i64 s = 0; s < stretches; s++) add(C(1), partials[s * rows + at].sums, row.data());
      unpack_row<false>(row.data(), head_dim, C(p.scale), row_of<T>(p.d_q, at / p.queries, query_row(at % p.queries)));
    }
  }
};

}  // namespace LONGSPAN_ISA
