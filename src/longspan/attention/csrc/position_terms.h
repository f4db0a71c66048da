#pragma once
#include "worker.h"

namespace LONGSPAN_ISA {
template <class T, class C>
struct PositionTerms : Worker<T, C> {
  PositionTerms(const Problem& problem) : Worker<T, C>(problem) {}
  void place_position_terms(i64&) {}
  void pack_position_query() {}
  void add_position_terms() {}
  void clear_position_gradients() {}
  void accumulate_position_gradients(const C*) {}
  void write_position_gradients() {}
};
}  // namespace LONGSPAN_ISA
