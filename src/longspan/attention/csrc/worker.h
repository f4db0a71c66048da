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
constexpr int kPrefetchRows = 12;
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
  Segment<C> segments[2];
  bool clean;       // no inf or NaN in the packed keys and values
  i64 position[kChunk];
  int low[kChunk], high[kChunk];  // lanes that see the row: low .. high, none if high < low

  bool sees(int row, int first_lane, int last_lane) const {
    return low[row] <= last_lane && high[row] >= first_lane;
  }
};

// Packed rows of keys and values, steps from .. to of one class.
template <class C>
struct Panel {
  C *k, *v;
  i64 capacity, from = 0, to = 0;
  bool clean = true;
};

template <class T, class C>
struct Worker {
  static constexpr int kVector = kLanes<C>;
  static constexpr int kGroup = kTileVectors * kVector;  // lanes that a register tile covers
  static_assert(kBlock % kGroup == 0, "a block is a whole number of tiles");

  const Problem& p;
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
  uint32_t query_hash[kBlock];
  uint32_t drop_below = 0;

  explicit Worker(const Problem& problem)
      : p(problem),
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
  void place_shared(i64 band_rows, i64& at) {
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
    band.from = band.to = 0;
    Vector<C> poison{};
    for (i64 g = 0; g < globals; g++) pack_key(global, g, global_position[g], poison);
    global.clean = is_clean<C>(poison);
  }

  void pack_key(Panel<C>& panel, i64 row, i64 position, Vector<C>& poison) {
    C *k = panel.k + row * width, *v = panel.v + row * width;
    if (padded(position)) {  // whatever stands there must not leak through 0 * NaN
      memset(k, 0, sizeof(C) * width);
      memset(v, 0, sizeof(C) * width);
      return;
    }
    pack_row(row_of<const T>(p.k, kv_head, position), head_dim, width, k, poison);
    pack_row(row_of<const T>(p.v, kv_head, position), head_dim, width, v, poison);
  }

  void prefetch_key(i64 position) const {
    const char *k = (const char*)row_of<const T>(p.k, kv_head, position);
    const char *v = (const char*)row_of<const T>(p.v, kv_head, position);
    for (int at = 0; at < head_dim * int(sizeof(T)); at += 64) {
      __builtin_prefetch(k + at);
      __builtin_prefetch(v + at);
    }
  }

  // Makes steps [from, to) available in the band panel, and packs on to `ahead` while there is room.
  void pack_band(i64 from, i64 to, i64 ahead) {
    if (from >= band.from && to <= band.to) return;
    band.from = from;
    band.to = larger(to, smaller(ahead, from + band.capacity));
    Vector<C> poison{};
    for (i64 t = from; t < band.to; t++) {
      // Rows lie a page apart, out of the hardware prefetcher's sight.
      prefetch_key(phase.position(smaller(t + kPrefetchRows, phase.key_steps - 1)));
      pack_key(band, t - from, phase.position(t), poison);
    }
    band.clean = is_clean<C>(poison);
  }

  // Packs rows of a query-shaped tensor, natural and transposed; rows of dead queries become 0.
  void pack_queries(const View& view, C factor, C* natural, C* transposed) {
    Vector<C> poison{};
    for (int i = 0; i < kBlock; i++) {
      if (i < block.count && !dead[i])
        pack_row(row_of<const T>(view, head, block.row + i * block.row_step), head_dim, width, natural + i * width,
                 poison);
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
    for (int i = 0; i < block.count; i++) alive |= !(dead[i] = padded(block.position(i)));
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

  // Calls visit() for every chunk of keys, with `chunk` filled. `ahead`: steps later blocks will need.
  template <class Visit>
  void for_each_chunk(i64 ahead, Visit visit) {
    i64 from, to;
    band_of_block(from, to);
    for (i64 g = 0, t = from; g < globals || t < to;) {
      chunk.band = int(smaller<i64>(kChunk, globals - g));
      const i64 band_rows = smaller<i64>(kChunk - chunk.band, to - t);
      chunk.rows = chunk.band + int(band_rows);
      chunk.band_step = t;
      chunk.clean = true;
      if (chunk.band) chunk.clean = global.clean;
      chunk.segments[0] = {0, chunk.band, global.k + g * width, global.v + g * width, nullptr, nullptr};
      if (band_rows) {
        pack_band(t, t + band_rows, larger(ahead, to));
        chunk.clean = chunk.clean && band.clean;
      }
      const i64 at = (t - band.from) * width;
      chunk.segments[1] = {chunk.band, chunk.rows, band.k + at, band.v + at, nullptr, nullptr};
      find_visible_lanes(g);
      visit(g);
      g += chunk.band;
      t += band_rows;
    }
  }

  // The rule of `Request.sees`, as an interval of lanes for each row of the chunk.
  void find_visible_lanes(i64 first_global) {
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

  // result[row][lane] = rows_of(segment)[row] . lanes_t[.][lane], where some lane of a tile sees the row.
  template <class RowsOf>
  void rows_times_lanes(RowsOf rows_of, const C* lanes_t, C* result) {
    for (const Segment<C>& segment : chunk.segments) {
      for (int r = segment.begin; r < segment.end; r += kTileRows) {
        const int rows = smaller(kTileRows, segment.end - r);
        int low, high;
        if (!lane_hull(r, rows, low, high)) continue;
        const int first = low / kGroup * kGroup, last = high / kGroup * kGroup + kGroup;
        matmul_rows<false>(rows, (last - first) / kVector, head_dim, rows_of(segment) + i64(r - segment.begin) * width,
                           i64(width), Fixed<1>{}, lanes_t + first, kBlock, result + r * kBlock + first, kBlock);
      }
    }
  }

  // result[lane][.] += sum over rows of weights[row][lane] * rows_of(segment)[row][.].
  template <class RowsOf>
  void accumulate_lanes(const C* weights, RowsOf rows_of, C* result) {
    for (int q0 = 0; q0 < block.count; q0 += kTileRows) {
      const int lanes = smaller(kTileRows, block.count - q0);
      int a = 0, b = chunk.rows;
      while (a < b && !chunk.sees(a, q0, q0 + lanes - 1)) a++;
      while (a < b && !chunk.sees(b - 1, q0, q0 + lanes - 1)) b--;
      for (const Segment<C>& segment : chunk.segments) {
        const int from = larger(a, segment.begin), to = smaller(b, segment.end);
        if (from >= to) continue;
        const C* rows = rows_of(segment) + i64(from - segment.begin) * width;
        if (chunk.clean)
          matmul_rows<true>(lanes, vectors, to - from, weights + from * kBlock + q0, Fixed<1>{}, Fixed<kBlock>{},
                            rows, width, result + q0 * width, width);
        else
          for (int r = from; r < to; r++)
            for (int i = larger(q0, chunk.low[r]); i <= smaller(q0 + lanes - 1, chunk.high[r]); i++)
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
        if (!lane_hull(r, rows, low, high)) continue;
        high = smaller(high, block.count - 1);
        C* result = result_of(segment) + i64(r - segment.begin) * width;
        if (queries_clean)
          matmul_rows<true>(rows, vectors, high - low + 1, weights + r * kBlock + low, Fixed<kBlock>{}, Fixed<1>{},
                            lanes_n + low * width, width, result, width);
        else
          for (int i = 0; i < rows; i++)
            for (int lane = chunk.low[r + i]; lane <= smaller(chunk.high[r + i], block.count - 1); lane++)
              add_scaled(weights[(r + i) * kBlock + lane], lanes_n + lane * width, result + i64(i) * width);
      }
    }
  }

  // The lanes that see any of `rows` rows; false if there are none.
  bool lane_hull(int row, int rows, int& low, int& high) const {
    low = kBlock, high = -1;
    for (int r = row; r < row + rows; r++) {
      if (chunk.low[r] > chunk.high[r]) continue;
      low = smaller(low, chunk.low[r]);
      high = larger(high, chunk.high[r]);
    }
    return low <= high;
  }

  // Rows [from, to) that a group of lanes sees, and inside them [whole_from, whole_to), seen by every lane.
  void rows_of_group(int lane, int& from, int& whole_from, int& whole_to, int& to) const {
    const int last = lane + kGroup - 1;
    from = 0, to = chunk.rows;
    while (from < to && !chunk.sees(from, lane, last)) from++;
    while (from < to && !chunk.sees(to - 1, lane, last)) to--;
    whole_from = from;
    while (whole_from < to && !whole(whole_from, lane)) whole_from++;
    whole_to = whole_from;
    while (whole_to < to && whole(whole_to, lane)) whole_to++;
  }
  bool whole(int row, int lane) const { return chunk.low[row] <= lane && chunk.high[row] >= lane + kGroup - 1; }

  void add_scaled(C factor, const C* from, C* to) const {
    for (int d = 0; d < width; d += kVector) store(to + d, load(to + d) + load(from + d) * factor);
  }
};

}  // namespace LONGSPAN_ISA
