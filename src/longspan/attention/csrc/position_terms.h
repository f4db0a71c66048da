// Terms of a score that depend on the offset between key and query: a bias per head (T5, ALiBi), and
// the product of a second query with a vector per offset (Transformer-XL's (q + v) . r).
//
// Inside a window the offsets of a chunk form diagonals, so both are computed per block: the bias from
// one short line of numbers, the product as a small matrix over the offsets that the chunk can have,
// read along its diagonals. Pairs without that order (global keys, queries at explicit positions) take
// the plain way, pair by pair. Nothing of the size queries x window is ever made.
#pragma once
#include <vector>

#include "worker.h"

namespace LONGSPAN_ISA {

// The vectors per offset, laid out for the kernel once per call. Offsets beyond the user's table take
// its end values, so the tables here are as long as the kernel may read.
template <class C>
struct PositionTables {
  struct OfHead {
    i64 origin = 0, columns = 0;   // step offset e is column origin + e
    std::vector<C> rows, by_dim;   // [columns][width] and [width][columns]
    std::vector<C> plain;          // [2 * reach + 1][width], by clipped position offset
  };
  std::vector<OfHead> heads;

  explicit PositionTables(const Problem& p) {
    if (!p.position_query.data) return;
    const i64 width = (p.head_dim + kLanes<C> - 1) / kLanes<C> * kLanes<C>, size = 2 * p.position_reach + 1;
    heads.resize(p.heads);
    for (i64 h = 0; h < p.heads; h++) {
      OfHead& table = heads[h];
      const C* source = static_cast<const C*>(p.position_keys) + h * size * p.head_dim;
      table.plain.assign(size * width, C(0));
      for (i64 i = 0; i < size; i++)
        for (i64 d = 0; d < p.head_dim; d++) table.plain[i * width + d] = source[i * p.head_dim + d];
      if (p.positions) continue;
      const PhaseOfHead phase = phase_of(p, 0, h, 0);
      table.origin = phase.left + kBlock;
      table.columns = phase.left + phase.right + 2 * kBlock + kChunk + 4 * kLanes<C>;
      table.rows.resize(table.columns * width);
      table.by_dim.resize(table.columns * width);
      for (i64 c = 0; c < table.columns; c++) {
        const C* row = table.plain.data() + clipped(p, (c - table.origin) * phase.dilation) * width;
        for (i64 d = 0; d < width; d++)
          table.rows[c * width + d] = table.by_dim[d * table.columns + c] = row[d];
      }
    }
  }
  static i64 clipped(const Problem& p, i64 offset) {
    return larger(-p.position_reach, smaller(p.position_reach, offset)) + p.position_reach;
  }
};

template <class T, class C>
struct PositionTerms : Worker<T, C> {
  using Base = Worker<T, C>;
  using Base::block, Base::chunk, Base::head, Base::head_dim, Base::kVector, Base::p, Base::phase, Base::scores,
      Base::vectors, Base::width;
  // Lanes whose products are computed together.
  static constexpr int kTogether = 16;
  static_assert(kBlock % kTogether == 0 && kTogether % kLanes<C> == 0, "squares of vectors fill them");
  // Row length of `diagonals`: the offsets of those lanes to a chunk.
  static constexpr int kDiagonal = kChunk + kTogether + 2 * kLanes<C>;

  const PositionTables<C>& tables;
  const bool has_bias, has_product;
  C* position_query;    // [kBlock][width]
  C* d_position_query;  // [kBlock][width]
  C* diagonals;         // [kTogether][kDiagonal]
  C* d_rows;            // [columns][width], gradient of the head's table.rows
  i64 d_rows_size = 0;
  C line[kChunk + kBlock];

  PositionTerms(const Problem& problem, const PositionTables<C>& position_tables, bool is_backward)
      : Base(problem, is_backward),
        tables(position_tables),
        has_bias(problem.bias != nullptr),
        has_product(problem.position_query.data != nullptr) {}

  void place_position_terms(bool gradients, i64& at) {
    if (!has_product) return;
    this->place(position_query, kBlock * width, at);
    this->place(diagonals, kTogether * kDiagonal, at);
    if (!gradients) return;
    this->place(d_position_query, kBlock * width, at);
    d_rows_size = 0;
    for (const auto& table : tables.heads) d_rows_size = larger<i64>(d_rows_size, table.rows.size());
    this->place(d_rows, d_rows_size, at);
  }

  void pack_position_query() {
    if (!has_product) return;
    for (int i = 0; i < kBlock; i++) {
      C* row = position_query + i * width;
      if (i < block.count && !this->dead[i])
        pack_row(this->template row_of<const T>(p.position_query, head, block.row(i)), head_dim,
                 width, row);
      else memset(row, 0, sizeof(C) * width);
    }
  }

  // Rows of the chunk whose offsets form diagonals begin here.
  int first_diagonal_row() const { return block.positions ? chunk.rows : chunk.band; }
  i64 offset(int r, int lane) const { return chunk.position[r] - block.position(lane); }

  void add_position_terms() {
    if (has_bias) add_bias();
    if (has_product) add_product();
  }

  const C* bias_of_head() const { return static_cast<const C*>(p.bias) + head * (2 * p.bias_reach + 1); }
  i64 bias_index(i64 of) const {
    return larger(-p.bias_reach, smaller(p.bias_reach, of)) + p.bias_reach;
  }
  // Entry x of the line serves lane - (r - band) + (band rows - 1) == x.
  i64 line_offset(int x) const {
    return (chunk.band_step - block.step + (chunk.rows - chunk.band - 1) - x) * phase.dilation;
  }

  void add_bias() {
    const C* bias = bias_of_head();
    const int first = first_diagonal_row(), rows = chunk.rows - first;
    for (int r = 0; r < first; r++)
      for (int lane = 0; lane < block.count; lane++)
        scores[r * kBlock + lane] += bias[bias_index(offset(r, lane))] * kLog2E<C>;
    for (int x = 0; rows && x < rows + kBlock - 1; x++) line[x] = bias[bias_index(line_offset(x))] * kLog2E<C>;
    for (int r = 0; r < rows; r++)
      for (int lane = 0; lane < kBlock; lane += kVector) {
        C* at = scores + (first + r) * kBlock + lane;
        store(at, load(at) + load(line + lane - r + rows - 1));
      }
  }

  // d_bias[.] += the gradients of the scores of the chunk.
  void add_bias_gradient(const C* d_scores, C* d_bias) {
    const int first = first_diagonal_row(), rows = chunk.rows - first;
    for (int r = 0; r < first; r++)
      for (int lane = 0; lane < block.count; lane++)
        d_bias[bias_index(offset(r, lane))] += d_scores[r * kBlock + lane];
    if (!rows) return;
    memset(line, 0, sizeof(line));
    for (int r = 0; r < rows; r++)
      for (int lane = 0; lane < block.count; lane++)
        line[lane - r + rows - 1] += d_scores[(first + r) * kBlock + lane];
    for (int x = 0; x < rows + kBlock - 1; x++) d_bias[bias_index(line_offset(x))] += line[x];
  }

  // Lanes of the block, and the rows of the chunk that form diagonals and that some of these lanes see. Lane i
  // and row r, counted from the first ones, meet in column r - i + kTogether - 1 of row i of `diagonals`. Read
  // with rows one number shorter, that is a matrix of lanes and rows, which squares turn into one of rows and lanes.
  struct Meeting {
    int lane, lanes, row, rows;
    i64 column;  // of the table: that of column 0
  };
  static constexpr i64 kSkewed = kDiagonal - 1;

  Meeting meeting_of(int lane) const {
    const int lanes = smaller(kTogether, block.count - lane), first = first_diagonal_row();
    int from = first, to = chunk.rows;
    while (from < to && !chunk.any_sees(from, lane, lane + lanes - 1)) from++;
    while (from < to && !chunk.any_sees(to - 1, lane, lane + lanes - 1)) to--;
    // Whole squares where there are as many rows: what they add is seen by nobody.
    from -= (from - first) % kVector;
    to = smaller(chunk.rows, from + (to - from + kVector - 1) / kVector * kVector);
    const i64 step = chunk.band_step + from - first;
    return {lane, lanes, from, to - from, tables.heads[head].origin + step - block.step - lane - (kTogether - 1)};
  }

  // Calls visit(i, lanes, column) for tiles of the lanes, and the first column where one of a tile meets a row.
  template <class Visit>
  void for_each_tile(const Meeting& at, Visit visit) const {
    for (int i = 0; i < at.lanes; i += kTileRows) {
      const int lanes = smaller(kTileRows, at.lanes - i);
      visit(i, lanes, kTogether - i - lanes);
    }
  }

  void add_product() {
    const auto& table = tables.heads[head];
    const C factor = C(p.scale) * kLog2E<C>;
    const int first = first_diagonal_row();
    for (int r = 0; r < first; r++)
      for (int lane = 0; lane < block.count; lane++) {
        if (!chunk.any_sees(r, lane, lane)) continue;
        const C* key = table.plain.data() + PositionTables<C>::clipped(p, offset(r, lane)) * width;
        Vector<C> sum{};
        for (int d = 0; d < width; d += kVector) sum += load(position_query + lane * width + d) * load(key + d);
        scores[r * kBlock + lane] += sum_of_lanes<C>(sum) * factor;
      }
    for (int lane = 0; first < chunk.rows && lane < block.count; lane += kTogether) {
      const Meeting at = meeting_of(lane);
      if (!at.rows) continue;
      for_each_tile(at, [&](int i, int lanes, int column) {
        matmul_rows<false>(lanes, (at.rows + lanes - 1 + kVector - 1) / kVector, head_dim,
                           position_query + (lane + i) * width, i64(width), Fixed<1>{},
                           table.by_dim.data() + at.column + column, table.columns,
                           diagonals + i * kDiagonal + column, kDiagonal);
      });
      const C* met = diagonals + kTogether - 1;
      C* to = scores + at.row * kBlock + lane;
      int r = 0;
      for (; r + kVector <= at.rows; r += kVector)
        for (int i = 0; i < at.lanes; i += kVector)
          transpose<true>(met + i * kSkewed + r, kSkewed, factor, to + r * kBlock + i, kBlock);
      for (; r < at.rows; r++)
        for (int i = 0; i < at.lanes; i++) to[r * kBlock + i] += met[i * kSkewed + r] * factor;
    }
  }

  // d_position_query, d_rows and d_plain += the gradients of the scores of the chunk, over scale.
  void add_product_gradient(const C* d_scores, C* d_plain) {
    const auto& table = tables.heads[head];
    const int first = first_diagonal_row();
    for (int r = 0; r < first; r++)
      for (int lane = 0; lane < block.count; lane++) {
        if (!chunk.any_sees(r, lane, lane)) continue;
        const i64 at = PositionTables<C>::clipped(p, offset(r, lane)) * width;
        this->add_scaled(d_scores[r * kBlock + lane], table.plain.data() + at, d_position_query + lane * width);
        this->add_scaled(d_scores[r * kBlock + lane], position_query + lane * width, d_plain + at);
      }
    for (int lane = 0; first < chunk.rows && lane < block.count; lane += kTogether) {
      const Meeting at = meeting_of(lane);
      if (!at.rows) continue;
      lay_out_diagonals(at, d_scores + at.row * kBlock + lane);
      for_each_tile(at, [&](int i, int lanes, int column) {
        matmul_rows<true>(lanes, vectors, at.rows + lanes - 1, diagonals + i * kDiagonal + column, Fixed<kDiagonal>{},
                          Fixed<1>{}, table.rows.data() + (at.column + column) * width, width,
                          d_position_query + (lane + i) * width, width);
      });
      const int columns = at.rows + kTogether - 1;
      for (int c = kTogether - at.lanes; c < columns; c += kTileRows) {
        // The lanes that meet a row in one of these columns.
        const int from = larger(0, kTogether - kTileRows - c);
        const int to = smaller(at.lanes, kTogether + at.rows - 1 - c);
        matmul_rows<true>(smaller(kTileRows, columns - c), vectors, to - from, diagonals + from * kDiagonal + c,
                          Fixed<1>{}, Fixed<kDiagonal>{}, position_query + (lane + from) * width, width,
                          d_rows + (at.column + c) * width, width);
      }
    }
  }

  // diagonals = the numbers of `from`, [rows][kBlock], each in its column, and 0 where no row is met.
  void lay_out_diagonals(const Meeting& at, const C* from) {
    C* met = diagonals + kTogether - 1;
    for (int i = 0; i < at.lanes; i++) {
      memset(diagonals + i * kDiagonal, 0, sizeof(C) * (kTogether - 1 - i));
      memset(met + i * kSkewed + at.rows, 0, sizeof(C) * i);
    }
    int r = 0;
    for (; r + kVector <= at.rows; r += kVector)
      for (int i = 0; i < at.lanes; i += kVector)
        transpose(from + r * kBlock + i, kBlock, One{}, met + i * kSkewed + r, kSkewed);
    for (; r < at.rows; r++)
      for (int i = 0; i < at.lanes; i++) met[i * kSkewed + r] = from[r * kBlock + i];
  }

  // Folds the gradient of the head's diagonals into that of the user's table, and begins anew.
  void fold_product_gradient(C* d_plain) {
    const auto& table = tables.heads[head];
    for (i64 c = 0; c < table.columns; c++)
      this->add_scaled(C(1), d_rows + c * width,
                       d_plain + PositionTables<C>::clipped(p, (c - table.origin) * phase.dilation) * width);
    memset(d_rows, 0, sizeof(C) * d_rows_size);
  }
};

}  // namespace LONGSPAN_ISA
