// The C interface of the library: a struct that describes a call of attention, one that describes a call
// of elementwise dropout, and what serves them.
//
// `library.py` mirrors both field by field with ctypes. Nothing here knows torch.
#pragma once
#include <cstdint>

// One tensor [batch, heads, rows, head_dim]; the last dimension is contiguous.
// Strides count elements.
struct View {
  void* data;
  int64_t batch, head, row;
};

enum DataType : int64_t { kFloat32 = 0, kBFloat16 = 1, kFloat16 = 2, kFloat64 = 3 };
enum KeyFlag : uint8_t { kPadded = 1, kGlobal = 2 };

struct Problem {
  int64_t dtype, threads;
  int64_t batch, heads, kv_heads, queries, keys, head_dim;

  View q, k, v, out;
  View out_rest;  // what rounding took from `out`, for the backward pass; data null: not kept
  void* lse;  // [batch, heads, queries], compute type; natural logarithm, -inf where nothing is seen

  const int64_t* patterns;  // [heads][left, right, dilation]; heads of one kv head agree
  int64_t offset;           // position of query 0 where `positions` is null
  const int64_t* positions; // [batch][queries] rising, -1 at the end for no query; or null

  const uint8_t* key_flags;         // [batch][keys] KeyFlag bits, or null
  const int64_t* global_positions;  // [batch][max_globals] rising; or null
  const int64_t* global_counts;     // [batch]
  int64_t max_globals;
  int64_t skip_global_queries;      // 1: queries at global positions come out 0, as padded ones do
  const int64_t* document_begin;    // [1 or batch][keys]: borders of each position's document; or null
  const int64_t* document_end;
  int64_t document_batch;           // stride between examples: 0 or keys

  double scale, dropout;
  uint64_t seed;

  const void* bias;  // [heads][2 * bias_reach + 1], compute type; or null
  int64_t bias_reach;
  View position_query;        // data null: no relative term
  const void* position_keys;  // [heads][2 * position_reach + 1][head_dim], compute type
  int64_t position_reach;

  // Backward only. Every gradient is overwritten; `d_lse` may be null.
  View d_out, d_q, d_k, d_v, d_position_query;
  const void* d_lse;
  void* d_bias;
  void* d_position_keys;
};

// Dropout of `count` numbers that lie one after the other: each is kept, times 1 / (1 - dropout), or 0.
struct Elements {
  int64_t dtype, threads, count;
  const void* x;
  void* out;
  double dropout;  // from 0 to 1, both included
  uint64_t seed;
};

// What a call returns.
enum Status : int { kDone = 0, kOutOfMemory = 1, kBadInstructionSet = 2 };

using AttentionFunction = int (*)(const Problem&);
using ElementsFunction = int (*)(const Elements&);
