// What the forward and the backward pass share: packing, chunks of keys, visibility, products.
//
// A worker belongs to one thread. It takes a run of query blocks of one head and streams the keys
// they see past them, in chunks of at most kChunk rows: first the global keys, then the window's.
// Lanes are queries: scores are kept as [key][query], so that the softmax is vertical and K and V
// are used in their natural layout.
#pragma once
#include <cstdlib>

#include "convert.h"
#include "dropout.h"
#include "geometry.h"
#include "matmul.h"

namespace LONGSPAN_ISA {

// Keys that are worked on together; scores of a block and a chunk stay in the first-level cache.
constexpr int kChunk = 96;
// The most rows that the panel of a window holds; wider windows are packed anew for every block.
constexpr i64 kPanelRows = 1024;
// Below every finite score: the running maximum before a key was seen.
constexpr float kNoScore = -1e30f;

// Consecutive keys of a chunk that lie one after the other in packed memory.
template <class C>
struct Segment {
  int begin, end;  // rows of the chunk
  const C *k, *v;  // [end - begin][width]
  C *dk, *dv;      // gradients, in the backward pass
};

template <class C>
struct Chunk {
  int rows, band;   // rows >= band belong to the window, those before are global keys
  i64 band_step;    // step of row `band`
  Segment<C> segments[3];  // global keys, window, window again from the panel's beginning
  bool whole;       // every lane sees every row; low and high are not filled then
  bool clean;       // no inf or NaN in the packed keys and values
  i64 position[kChunk];
  int low[kChunk], high[kChunk];  // lanes that see the row: low .. high, none if high < low

  // Whether some, or every, lane from first_lane to last_lane sees the row.
  bool any_sees(int row, int first_lane, int last_lane) const {
    return whole || (low[row] <= last_lane && high[row] >= first_lane);
  }
  bool all_see(int row, int first_lane, int last_lane) const {
    return whole || (low[row] <= first_lane && high[row] >= last_lane);
  }
};

// Packed rows of keys and values. For the window it is a ring that slides along with the queries and
// stays in the second-level cache: step t is kept in row t % capacity, for from <= t < to.
template <class C>
struct Panel {
  C *k, *v;
  i64 capacity, from = 0, to = 0;
  i64 ahead = 0;  // steps before this one were asked for
  bool clean = true;
};

// How a group of lanes sees a row: with every lane, with some, with none.
enum Seen { kWhole, kPartly, kNot };

template <class T, class C>
struct Worker {
  static constexpr int kVector = kLanes<C>;
  static constexpr int kGroup = 2 * kVector;  // lanes whose softmax is computed together
  static_assert(kBlock % kGroup == 0, "a block is a whole number of groups");

  const Problem& p;
  const bool backward;  // which of the two passes this is
  const int head_dim, width, vectors;  // width: head_dim rounded up to whole vectors
  char* memory = nullptr;
  i64 memory_size = 0;

  // The task at hand.
  i64 example = 0, kv_head = 0, head = 0;
  PhaseOfHead phase{};
  i64 globals = 0;
  const i64* global_position = nullptr;
  const uint8_t* flags = nullptr;
  const i64 *document_begin = nullptr, *document_end = nullptr;
  Panel<C> band{}, global{};

  // The block at hand.
  QueryBlock block{};
  bool dead[kBlock];
  bool queries_clean = true;
  C *q, *q_t;  // [kBlock][width] and [width][kBlock]
  C* scores;   // [kChunk][kBlock]
  Chunk<C> chunk;
  i64 key_limit = 0, keys_at_once = 1, lane_ahead = 0, lanes_at_once = 1;  // of the prefetches
  uint32_t query_hash[kBlock];
  uint32_t drop_below = 0;

  Worker(const Problem& problem, bool is_backward)
      : p(problem),
        backward(is_backward),
        head_dim(int(problem.head_dim)),
        width((head_dim + kVector - 1) / kVector * kVector),
        vectors(width / kVector),
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
    const i64 band_rows = smaller<i64>(window + kChunk, kPanelRows);
    band.capacity = band_rows;
    global.capacity = p.max_globals;
    place(band.k, band_rows * width, at);
    place(band.v, band_rows * width, at);
    place(global.k, p.max_globals * width, at);
    place(global.v, p.max_globals * width, at);
    place(q, kBlock * width, at);
    place(q_t, kBlock * width, at);
    place(scores, kChunk * kBlock, at);
  }
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

  Vector<C> pack_key(Panel<C>& panel, i64 row, i64 position) {
    C *k = panel.k + row * width, *v = panel.v + row * width;
    if (padded(position)) {  // whatever stands there must not leak through 0 * NaN
      memset(k, 0, sizeof(C) * width);
      memset(v, 0, sizeof(C) * width);
      return Vector<C>{};
    }
    return pack_row(row_of<const T>(p.k, kv_head, position), head_dim, width, k) +
           pack_row(row_of<const T>(p.v, kv_head, position), head_dim, width, v);
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
    const i64 end = smaller<i64>(kBlock, lane_ahead + lanes_at_once);
    for (; lane_ahead < end; lane_ahead++) {
      const i64 row = block.row + lane_ahead * block.row_step, next = row + kBlock * block.row_step;
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

  // Packs rows of a query-shaped tensor, natural and transposed; rows of dead queries become 0.
  void pack_queries(const View& view, C factor, C* natural, C* transposed) {
    Vector<C> poison{};
    for (int i = 0; i < kBlock; i++) {
      if (i < block.count && !dead[i])
        poison += pack_row(row_of<const T>(view, head, block.row + i * block.row_step), head_dim, width,
                           natural + i * width);
      else memset(natural + i * width, 0, sizeof(C) * width);
    }
    queries_clean = queries_clean && is_clean<C>(poison);
    for (int i = 0; i < kBlock; i += kVector)
      for (int d = 0; d < width; d += kVector)
        transpose<C>(natural + i * width + d, width, factor, transposed + d * kBlock + i, kBlock);
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
  }

  // Calls visit(first global) for every chunk of keys, with `chunk` filled.
  template <class Visit>
  void for_each_chunk(Visit visit) {
    i64 from, to;
    band_of_block(from, to);
    plan_prefetches(from, to);
    for (i64 g = 0, t = from; g < globals || t < to;) {
      chunk.band = int(smaller<i64>(kChunk, globals - g));
      const i64 band_rows = smaller<i64>(kChunk - chunk.band, to - t);
      chunk.rows = chunk.band + int(band_rows);
      chunk.band_step = t;
      chunk.clean = true;
      if (chunk.band) chunk.clean = global.clean;
      chunk.segments[0] = {0, chunk.band, global.k + g * width, global.v + g * width, nullptr, nullptr};
      if (band_rows) {
        pack_band(t, t + band_rows);
        chunk.clean = chunk.clean && band.clean;
      }
      const i64 at = t % band.capacity * width;
      const int wrap = chunk.band + int(smaller(band_rows, band.capacity - t % band.capacity));
      chunk.segments[1] = {chunk.band, wrap, band.k + at, band.v + at, nullptr, nullptr};
      chunk.segments[2] = {wrap, chunk.rows, band.k, band.v, nullptr, nullptr};
      find_visible_lanes(g);
      visit(g);
      g += chunk.band;
      t += band_rows;
    }
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

  // result[row][lane] = rows_of(segment)[row] . lanes_t[.][lane], where some lane of a vector sees the row.
  template <class RowsOf>
  void rows_times_lanes(RowsOf rows_of, const C* lanes_t, C* result) {
    for (const Segment<C>& segment : chunk.segments) {
      for (int r = segment.begin; r < segment.end; r += kTileRows) {
        const int rows = smaller(kTileRows, segment.end - r);
        int low, high;
        prefetch_keys();
        if (!lane_hull(r, rows, low, high)) continue;
        const int first = low / kVector, last = smaller(high, block.count - 1) / kVector + 1;
        matmul_rows<false>(rows, last - first, head_dim, rows_of(segment) + i64(r - segment.begin) * width, i64(width),
                           Fixed<1>{}, lanes_t + first * kVector, kBlock, result + r * kBlock + first * kVector, kBlock);
      }
    }
  }

  // result[lane][.] += sum over rows of weights[row][lane] * rows_of(segment)[row][.].
  template <class RowsOf>
  void accumulate_lanes(const C* weights, RowsOf rows_of, C* result) {
    for (int q0 = 0; q0 < block.count; q0 += kTileRows) {
      const int lanes = smaller(kTileRows, block.count - q0);
      prefetch_queries();
      for (const Segment<C>& segment : chunk.segments) {
        int from = segment.begin, to = segment.end;
        while (from < to && !chunk.any_sees(from, q0, q0 + lanes - 1)) from++;
        while (from < to && !chunk.any_sees(to - 1, q0, q0 + lanes - 1)) to--;
        if (from == to) continue;
        const C* rows = rows_of(segment) + i64(from - segment.begin) * width;
        if (chunk.clean)
          matmul_rows<true>(lanes, vectors, to - from, weights + from * kBlock + q0, Fixed<1>{}, Fixed<kBlock>{},
                            rows, width, result + q0 * width, width);
        else
          for (int r = from; r < to; r++)
            for (int i = q0; i < q0 + lanes; i++)
              if (chunk.any_sees(r, i, i))
                add_scaled(weights[r * kBlock + i], rows + i64(r - from) * width, result + i * width);
      }
    }
  }

  // result_of(segment)[row][.] += sum over lanes of weights[row][lane] * lanes_n[lane][.].
  template <class ResultOf>
  void accumulate_rows(const C* weights, const C* lanes_n, ResultOf result_of) {
    for (const Segment<C>& segment : chunk.segments) {
      for (int r = segment.begin; r < segment.end; r += kTileRows) {
        const int rows = smaller(kTileRows, segment.end - r);
        int low, high;
        prefetch_queries();
        if (!lane_hull(r, rows, low, high)) continue;
        high = smaller(high, block.count - 1);
        C* result = result_of(segment) + i64(r - segment.begin) * width;
        if (queries_clean)
          matmul_rows<true>(rows, vectors, high - low + 1, weights + r * kBlock + low, Fixed<kBlock>{}, Fixed<1>{},
                            lanes_n + low * width, width, result, width);
        else
          for (int i = 0; i < rows; i++)
            for (int lane = low; lane <= high; lane++)
              if (chunk.any_sees(r + i, lane, lane))
                add_scaled(weights[(r + i) * kBlock + lane], lanes_n + lane * width, result + i64(i) * width);
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
};

}  // namespace LONGSPAN_ISA
