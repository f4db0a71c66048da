// What the forward and the backward pass share: packing, chunks of keys, visibility, products.
//
// A worker belongs to one thread. It takes a run of query blocks of one head and streams the keys
// they see past them, in chunks of at most kChunk rows: first the global keys, then the window's.
// Lanes are queries: scores are kept as [key][query], so that the softmax is vertical and K and V
// are used in their natural layout, or two rows zipped where operands are pairs (`pairs.h`).
#pragma once
#include <cstdlib>

#include "dropout.h"
#include "matmul.h"
#include "packed.h"

namespace LONGSPAN_ISA {

// The most rows that the panel of a window holds; wider windows are packed anew for every block.
constexpr i64 kPanelRows = 1024;

// How a group of lanes sees a row: with every lane, with some, with none.
enum Seen { kWhole, kPartly, kNot };

template <class T, class C>
struct Worker {
  using E = Operand<T, C>;
  static constexpr int kNumbers = LONGSPAN_ISA::kNumbers<E>;
  static constexpr bool kPairs = kNumbers == 2;
  static_assert(kChunk % 2 == 0 && kPanelRows % 2 == 0, "rows are zipped two by two");
  static constexpr int kVector = kLanes<C>;
  static constexpr int kGroup = 2 * kVector;  // lanes whose softmax is computed together
  static_assert(kBlock % kGroup == 0, "a block is a whole number of groups");

  const Problem& p;
  const bool backward;  // which of the two passes this is
  const int head_dim, width, vectors;  // width: head_dim rounded up to whole vectors
  const int depth, row_size;           // operands of a packed row, and the same rounded up to whole vectors
  char* memory = nullptr;
  i64 memory_size = 0;

  // The task at hand.
  i64 example = 0, kv_head = 0, head = 0;
  PhaseOfHead phase{};
  i64 globals = 0;
  const i64* global_position = nullptr;
  const uint8_t* flags = nullptr;
  const i64 *document_begin = nullptr, *document_end = nullptr;
  Panel<E> band{}, global{};

  // The block at hand.
  QueryBlock block{};
  bool dead[kBlock];
  bool queries_clean = true;
  Lanes<E, C> q{};
  C* scores;                // [kChunk][kBlock]
  Weights<E, C> weights{};  // what the scores become
  Chunk<E, C> chunk;
  i64 key_limit = 0, keys_at_once = 1, lane_ahead = 0, lanes_at_once = 1;  // of the prefetches
  uint32_t query_hash[kBlock];
  uint32_t drop_below = 0;

  Worker(const Problem& problem, bool is_backward)
      : p(problem),
        backward(is_backward),
        head_dim(int(problem.head_dim)),
        width((head_dim + kVector - 1) / kVector * kVector),
        vectors(width / kVector),
        depth((head_dim + kNumbers - 1) / kNumbers),
        row_size((depth + kVector - 1) / kVector * kVector),
        drop_below(uint32_t(larger(0.0, problem.dropout * 4294967296.0 + 0.5))) {}
  Worker(const Worker&) = delete;
  ~Worker() { free(memory); }

  // Hands out pieces of one allocation: call once to count (memory null), once to place.
  template <class U>
  void place(U*& pointer, i64 count, i64& at) {
    pointer = memory ? reinterpret_cast<U*>(memory + at) : nullptr;
    at += (count * i64(sizeof(U)) + 63) / 64 * 64;
  }
  // `window`: the most steps that a block sees, in any class.
  void place_shared(i64 window, i64& at) {
    place_panel(band, smaller<i64>(window + kNumbers - 1 + kChunk, kPanelRows), at);
    place_panel(global, p.max_globals, at);
    place_lanes(q, at);
    place_weights(scores, weights, !backward, backward, at);
  }
  void place_panel(Panel<E>& panel, i64 rows, i64& at) {
    panel.capacity = (rows + kNumbers - 1) / kNumbers * kNumbers;
    place(panel.k, panel.capacity * row_size, at);
    place(panel.v, larger<i64>(row_size, panel.capacity * v_stride()), at);
    panel.zipped = backward ? panel.k : panel.v;
    if (kPairs) place(panel.zipped, panel.capacity / kNumbers * width, at);
  }
  void place_lanes(Lanes<E, C>& lanes, i64& at) {
    place(lanes.rows, kBlock * row_size, at);
    place(lanes.columns, kBlock * row_size, at);
    lanes.zipped = lanes.rows;
    if (kPairs && backward) place(lanes.zipped, kBlock / kNumbers * width, at);
  }
  // `keys`, `queries`: which products there will be.
  void place_weights(C*& numbers, Weights<E, C>& to, bool keys, bool queries, i64& at) {
    place(numbers, kChunk * kBlock, at);
    to.numbers = numbers;
    if constexpr (kPairs) {
      if (keys) place(to.over_keys, kChunk / kNumbers * kBlock, at);
      if (queries) place(to.over_queries, kChunk * kBlock / kNumbers, at);
    } else {
      to.over_keys = to.over_queries = numbers;
    }
  }
  // Forward, values are needed zipped only.
  i64 v_stride() const { return kPairs && !backward ? 0 : row_size; }
  bool allocate(i64 size) {
    memory = static_cast<char*>(aligned_alloc(64, larger<i64>(64, size)));
    return memory != nullptr;
  }

  template <class U>
  U* row_of(const View& view, i64 which_head, i64 row) const {
    return static_cast<U*>(view.data) + example * view.batch + which_head * view.head + row * view.row;
  }

  bool padded(i64 position) const { return flags && (flags[position] & kPadded); }

  void begin_task(i64 b, i64 which_kv_head, i64 which_head, i64 residue) {
    example = b;
    kv_head = which_kv_head;
    head = which_head;
    phase = phase_of(p, b, which_head, residue);
    flags = p.key_flags ? p.key_flags + b * p.keys : nullptr;
    document_begin = p.document_begin ? p.document_begin + b * p.document_batch : nullptr;
    document_end = p.document_end ? p.document_end + b * p.document_batch : nullptr;
    globals = p.global_positions ? p.global_counts[b] : 0;
    global_position = p.global_positions ? p.global_positions + b * p.max_globals : nullptr;
    band.from = band.to = band.ahead = 0;
    Vector<C> poison{};
    for (i64 g = 0; g < globals; g++) poison += pack_key(global, g, global_position[g]);
    global.clean = is_clean<C>(poison);
  }

  Vector<C> pack_key(Panel<E>& panel, i64 row, i64 position) {
    E *k = panel.k + row * row_size, *v = panel.v + row * v_stride();
    Vector<C> poison{};
    if (padded(position)) {  // whatever stands there must not leak through 0 * NaN
      memset(k, 0, sizeof(E) * row_size);
      memset(v, 0, sizeof(E) * row_size);
    } else {
      poison = pack_row(row_of<const T>(p.k, kv_head, position), head_dim, row_size, k) +
               pack_row(row_of<const T>(p.v, kv_head, position), head_dim, row_size, v);
    }
    if constexpr (kPairs) zip_row(backward ? k : v, width, row % 2, panel.zipped + row / 2 * width);
    return poison;
  }

  // Makes steps [from, to), at most as many as fit, available in the band panel.
  void pack_band(i64 from, i64 to) {
    if (from < band.from || from > band.to) {
      band.from = band.to = band.ahead = from;
      band.clean = true;
    }
    Vector<C> poison{};
    for (i64 row = band.to % band.capacity; band.to < to; band.to++) {
      poison += pack_key(band, row, phase.position(band.to));
      if (++row == band.capacity) row = 0;
    }
    band.from = larger(band.from, band.to - band.capacity);
    band.ahead = larger(band.ahead, band.to);
    band.clean = band.clean && is_clean<C>(poison);
  }

  // Rows that are needed soon are asked for a few at a time between products, so that memory works while
  // the processor multiplies: they lie a page apart, out of the hardware prefetcher's sight. Few at a
  // time, because a core has some sixteen places for lines on their way, and waits when they are taken.
  void plan_prefetches(i64 from, i64 to) {
    key_limit = smaller(to + kBlock, phase.key_steps);
    band.ahead = larger(band.ahead, larger(band.to, from));
    const i64 tiles = (to - from + globals) / kTileRows + 1, chunks = (to - from + globals) / kChunk + 1;
    const i64 lane_tiles = chunks * (kBlock / kTileRows + 1) + (backward ? 2 * tiles : 0);
    keys_at_once = (key_limit - band.ahead) / (backward ? 2 * tiles : tiles) + 1;
    lanes_at_once = kBlock / lane_tiles + 1;
    lane_ahead = 0;
  }
  // The keys that this block has not packed yet, and those that the next one adds.
  void prefetch_keys() {
    const i64 end = smaller(key_limit, band.ahead + keys_at_once);
    for (; band.ahead < end; band.ahead++) {
      const i64 position = phase.position(band.ahead);
      prefetch_row<0>(p.k, kv_head, position);
      prefetch_row<0>(p.v, kv_head, position);
    }
  }
  // What is read for the queries of the next block and written for those of this one.
  void prefetch_queries() {
    if (block.rows_by_position) return;
    const i64 end = smaller<i64>(kBlock, lane_ahead + lanes_at_once);
    for (; lane_ahead < end; lane_ahead++) {
      const i64 row = block.row0 + lane_ahead * block.row_step, next = row + kBlock * block.row_step;
      if (next < p.queries) {
        prefetch_row<0>(p.q, head, next);
        if (backward) prefetch_row<0>(p.d_out, head, next), prefetch_row<0>(p.out, head, next);
      }
      if (row < p.queries) prefetch_row<1>(backward ? p.d_q : p.out, head, row);
    }
  }
  template <int Write>
  void prefetch_row(const View& view, i64 which_head, i64 row) const {
    const char* at = reinterpret_cast<const char*>(row_of<const T>(view, which_head, row));
    for (int d = 0; d < head_dim * int(sizeof(T)); d += 64) __builtin_prefetch(at + d, Write, 2);
  }

  // Packs rows of a query-shaped tensor; rows of dead queries become 0. Products with the columns get the factor.
  void pack_queries(const View& view, C factor, Lanes<E, C>& to) {
    Vector<C> poison{};
    for (int i = 0; i < kBlock; i++) {
      E* row = to.rows + i * row_size;
      if (i < block.count && !dead[i])
        poison += pack_row(row_of<const T>(view, head, block.row(i)), head_dim, row_size, row);
      else memset(row, 0, sizeof(E) * row_size);
      if constexpr (kPairs)
        if (backward) zip_row(row, width, i % 2, to.zipped + i / 2 * width);
    }
    queries_clean = queries_clean && is_clean<C>(poison);
    to.factor = factor;
    for (int i = 0; i < kBlock; i += kVector)
      for (int d = 0; d < row_size; d += kVector) {
        const E* square = to.rows + i * row_size + d;
        if constexpr (kPairs) transpose(square, row_size, One{}, to.columns + d * kBlock + i, kBlock);
        else transpose(square, row_size, factor, to.columns + d * kBlock + i, kBlock);
      }
  }

  // Begins a block; false if all its queries are padded.
  bool begin_block(i64 from) {
    block = QueryBlock(phase, from);
    bool alive = false;
    const uint8_t without_row = p.skip_global_queries ? kPadded | kGlobal : kPadded;
    for (int i = 0; i < block.count; i++)
      alive |= !(dead[i] = flags && (flags[block.position(i)] & without_row));
    queries_clean = true;
    if (drop_below) {
      const uint32_t stream = dropout_stream(p.seed, example * p.heads + head);
      for (int i = 0; i < kBlock; i++)
        query_hash[i] = i < block.count ? dropout_query(stream, block.position(i)) : 0;
    }
    return alive;
  }

  // Steps of the window that some lane of the block may see.
  void band_of_block(i64& from, i64& to) const {
    from = 0, to = phase.key_steps;
    if (!block.positions) {
      from = larger<i64>(0, block.step - phase.left);
      to = smaller(to, block.step + block.count + phase.right);
    }
    if (document_begin) {  // documents are in order: the first lane's begins first, the last lane's ends last
      const i64 begin = document_begin[block.position(0)], end = document_end[block.position(block.count - 1)];
      from = larger(from, (begin - phase.first + phase.dilation - 1) / phase.dilation);
      to = smaller(to, (end - phase.first + phase.dilation - 1) / phase.dilation);
    }
    if (phase.causal && block.positions) to = smaller(to, block.position(block.count - 1) + 1);
    to = larger(from, to);
    if (from < to) from -= from % kNumbers;  // zipped rows begin with an even one; nobody sees what that adds
  }

  // Calls visit(first global) for every chunk of keys, with `chunk` filled.
  template <class Visit>
  void for_each_chunk(Visit visit) {
    i64 from, to;
    band_of_block(from, to);
    plan_prefetches(from, to);
    for (i64 g = 0, t = from; g < globals || t < to;) {
      const int global_rows = int(smaller<i64>(kChunk, globals - g));
      chunk.band = (global_rows + kNumbers - 1) / kNumbers * kNumbers;
      const i64 band_rows = smaller<i64>(kChunk - chunk.band, to - t);
      chunk.rows = chunk.band + int(band_rows);
      chunk.band_step = t;
      chunk.clean = true;
      if (chunk.band) chunk.clean = global.clean;
      chunk.segments[0] = segment_of(global, 0, global_rows, g);
      if (band_rows) {
        pack_band(t, t + band_rows);
        chunk.clean = chunk.clean && band.clean;
      }
      const int wrap = chunk.band + int(smaller(band_rows, band.capacity - t % band.capacity));
      chunk.segments[1] = segment_of(band, chunk.band, wrap, t % band.capacity);
      chunk.segments[2] = segment_of(band, wrap, chunk.rows, 0);
      find_visible_lanes(g);
      visit(g);
      g += global_rows;
      t += band_rows;
    }
  }
  Segment<E, C> segment_of(const Panel<E>& panel, int begin, int end, i64 row) const {
    return {begin, end, panel.k + row * row_size, panel.v + row * v_stride(), panel.zipped + row / kNumbers * width,
            nullptr, nullptr};
  }

  // The rule of `Request.sees`, as an interval of lanes for each row of the chunk.
  void find_visible_lanes(i64 first_global) {
    chunk.whole = sees_whole_band();
    if (chunk.whole) {
      for (int r = 0; r < chunk.rows; r++) chunk.position[r] = phase.position(chunk.band_step + r);
      return;
    }
    i64 document = -1;
    int document_low = 0, document_high = 0;
    for (int r = 0; r < chunk.rows; r++) {
      const bool is_band = r >= chunk.band;
      if (!is_band && first_global + r >= globals) {  // no key, only the neighbour of the last one
        chunk.position[r] = chunk.low[r] = 0, chunk.high[r] = -1;
        continue;
      }
      const i64 step = chunk.band_step + r - chunk.band;
      const i64 position = is_band ? phase.position(step) : global_position[first_global + r];
      int low = 0, high = block.count - 1;
      if (is_band && !block.positions) {
        low = int(larger<i64>(low, step - phase.right - block.step));
        high = int(smaller<i64>(high, step + phase.left - block.step));
      } else if (phase.causal) {
        low = block.lanes_before(position);
      }
      if (document_begin) {
        if (document != document_begin[position]) {
          document = document_begin[position];
          document_low = block.lanes_before(document);
          document_high = block.lanes_before(document_end[position]) - 1;
        }
        low = larger(low, document_low);
        high = smaller(high, document_high);
      }
      if (flags && (flags[position] & (is_band ? kPadded | kGlobal : kPadded))) high = -1;
      // Lanes past the last query are computed and thrown away; a whole row needs no mask.
      if (high == block.count - 1) high = kBlock - 1;
      chunk.position[r] = position;
      chunk.low[r] = low;
      chunk.high[r] = high;
    }
  }

  // The quick case: nothing but window, well inside it, and no key hidden.
  bool sees_whole_band() const {
    const i64 last = chunk.band_step + chunk.rows - 1;
    if (chunk.band || (block.positions && phase.causal)) return false;
    if (document_begin) {  // documents are in order: if first and last agree, all between them do
      const i64 document = document_begin[block.position(0)];
      if (document_begin[block.position(block.count - 1)] != document ||
          document_begin[phase.position(chunk.band_step)] != document || document_begin[phase.position(last)] != document)
        return false;
    }
    if (!block.positions && (last - phase.right > block.step ||
                             chunk.band_step + phase.left < block.step + block.count - 1))
      return false;
    uint8_t hidden = 0;
    for (int r = 0; flags && r < chunk.rows; r++) hidden |= flags[phase.position(chunk.band_step + r)];
    return !hidden;
  }

  // Makes operands of the numbers. Half of a pair that belongs to no key or no query becomes 0.
  void pack_weights(const Weights<E, C>& weights) const {
    if constexpr (kPairs)
      for (int r = 0; r < chunk.rows; r += 2) {
        const bool has_second = r + 1 < chunk.rows;
        for (int lane = 0; lane < block.count; lane += kVector) {
          const C* at = weights.numbers + r * kBlock + lane;
          const Vector<C> first = load(at), second = has_second ? load(at + kBlock) : Vector<C>{};
          if (weights.over_keys) store(weights.over_keys + r / 2 * kBlock + lane, zip(first, second));
          if (!weights.over_queries) continue;
          Pair* to = weights.over_queries + (r * kBlock + lane) / 2;
          store_numbers(to, first);
          if (has_second) store_numbers(to + kBlock / 2, second);
        }
        if (weights.over_queries && block.count % 2) {  // no query, only the neighbour of the last one
          BFloat16* after = numbers_of(weights.over_queries) + r * kBlock + block.count;
          memset((void*)after, 0, sizeof(BFloat16));
          if (has_second) memset((void*)(after + kBlock), 0, sizeof(BFloat16));
        }
      }
  }

  static auto factor_of(const Lanes<E, C>& lanes) {
    if constexpr (kPairs) return lanes.factor;
    else return One{};
  }

  // result[row][lane] = factor * rows_of(segment)[row] . lanes.columns[.][lane], where some lane of a vector
  // sees the row.
  template <class RowsOf>
  void rows_times_lanes(RowsOf rows_of, const Lanes<E, C>& lanes, C* result) {
    const auto factor = factor_of(lanes);
    for (const Segment<E, C>& segment : chunk.segments) {
      for (int r = segment.begin; r < segment.end; r += kTileRows) {
        const int rows = smaller(kTileRows, segment.end - r);
        int low, high;
        prefetch_keys();
        if (!lane_hull(r, rows, low, high)) continue;
        const int first = low / kVector, last = smaller(high, block.count - 1) / kVector + 1;
        matmul_rows<false>(rows, last - first, depth, rows_of(segment) + i64(r - segment.begin) * row_size,
                           i64(row_size), Fixed<1>{}, lanes.columns + first * kVector, kBlock,
                           result + r * kBlock + first * kVector, kBlock, factor);
      }
    }
  }

  // result[lane][.] += sum over rows of weights[row][lane] * zipped[row][.].
  void accumulate_lanes(const Weights<E, C>& weights, C* result) {
    for (int q0 = 0; q0 < block.count; q0 += kTileRows) {
      const int lanes = smaller(kTileRows, block.count - q0);
      prefetch_queries();
      for (const Segment<E, C>& segment : chunk.segments) {
        int from = segment.begin, to = segment.end;
        while (from < to && !chunk.any_sees(from, q0, q0 + lanes - 1)) from++;
        while (from < to && !chunk.any_sees(to - 1, q0, q0 + lanes - 1)) to--;
        if (from == to) continue;
        const int first = from / kNumbers, end = (to + kNumbers - 1) / kNumbers;
        if (chunk.clean)
          matmul_rows<true>(lanes, vectors, end - first, weights.over_keys + first * kBlock + q0, Fixed<1>{},
                            Fixed<kBlock>{}, segment.zipped + i64(first - segment.begin / kNumbers) * width, width,
                            result + q0 * width, width);
        else
          for (int r = from; r < to; r++)
            for (int i = q0; i < q0 + lanes; i++)
              if (chunk.any_sees(r, i, i))
                add_zipped(weights.numbers[r * kBlock + i], segment.zipped, r - segment.begin, result + i * width);
      }
    }
  }

  // result_of(segment)[row][.] += sum over lanes of weights[row][lane] * lanes.zipped[lane][.].
  template <class ResultOf>
  void accumulate_rows(const Weights<E, C>& weights, const Lanes<E, C>& lanes, ResultOf result_of) {
    constexpr int row_step = kBlock / kNumbers;
    for (const Segment<E, C>& segment : chunk.segments) {
      for (int r = segment.begin; r < segment.end; r += kTileRows) {
        const int rows = smaller(kTileRows, segment.end - r);
        int low, high;
        prefetch_queries();
        if (!lane_hull(r, rows, low, high)) continue;
        high = smaller(high, block.count - 1);
        C* result = result_of(segment) + i64(r - segment.begin) * width;
        const int first = low / kNumbers, end = high / kNumbers + 1;
        if (queries_clean)
          matmul_rows<true>(rows, vectors, end - first, weights.over_queries + r * row_step + first, Fixed<row_step>{},
                            Fixed<1>{}, lanes.zipped + first * width, width, result, width);
        else
          for (int i = 0; i < rows; i++)
            for (int lane = low; lane <= high; lane++)
              if (chunk.any_sees(r + i, lane, lane))
                add_zipped(weights.numbers[(r + i) * kBlock + lane], lanes.zipped, lane, result + i64(i) * width);
      }
    }
  }

  // The lanes that see any of `rows` rows; false if there are none.
  bool lane_hull(int row, int rows, int& low, int& high) const {
    low = 0, high = kBlock - 1;
    if (chunk.whole) return true;
    low = kBlock, high = -1;
    for (int r = row; r < row + rows; r++) {
      if (chunk.low[r] > chunk.high[r]) continue;
      low = smaller(low, chunk.low[r]);
      high = larger(high, chunk.high[r]);
    }
    return low <= high;
  }

  // Calls part(begin, end, kind) for stretches of the chunk's rows, by how a group of lanes sees them.
  template <class Part>
  LONGSPAN_INLINE void for_each_stretch(int lane, Part part) const {
    auto kind = [&](int r) {
      if (chunk.all_see(r, lane, lane + kGroup - 1)) return kWhole;
      return chunk.any_sees(r, lane, lane + kGroup - 1) ? kPartly : kNot;
    };
    if (chunk.whole) return part(0, chunk.rows, kWhole);
    for (int begin = 0, end; begin < chunk.rows; begin = end) {
      const Seen seen = kind(begin);
      for (end = begin + 1; end < chunk.rows && kind(end) == seen;) end++;
      part(begin, end, seen);
    }
  }

  void add_scaled(C factor, const C* from, C* to) const {
    for (int d = 0; d < width; d += kVector) store(to + d, load(to + d) + load(from + d) * factor);
  }
  void add_zipped(C factor, const E* zipped, i64 row, C* to) const {
    for (int d = 0; d < width; d += kVector)
      store(to + d, load(to + d) + load_zipped(zipped, row, width, d) * factor);
  }
};

}  // namespace LONGSPAN_ISA
