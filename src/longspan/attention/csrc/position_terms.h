// Terms of a score that depend on the offset between key and query: a bias per head (T5, ALiBi) and
// the product of a second query with a vector per offset (Transformer-XL). Placeholder layer.
#pragma once
#include "worker.h"

namespace LONGSPAN_ISA {
template <class C>
struct PositionTables {};
template <class T, class C>
struct PositionTerms : Worker<T, C> {
  PositionTerms(const Problem& problem, const PositionTables<C>&) : Worker<T, C>(problem) {}
  void place_position_terms(i64&) {}
  void pack_position_query() {}
  void add_position_terms() {}
};
}  // namespace LONGSPAN_ISA
