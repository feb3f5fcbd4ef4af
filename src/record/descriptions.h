#pragma once
// What each dataset of a result file means: the one place that states units and descriptions, which
// files carry as attributes and docs/file-format.md lists. A factor's come from its declaration
// (measure/factors.h).

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/case.h"
#include "record/case_record.h"

namespace paceline {

struct Description {
  std::string_view group;  // "summary", "memory/blocks": of a case or of the whole file
  std::string_view name;   // of the dataset; '*' stands for any text; empty: the group itself
  std::string_view unit;   // "s", "bytes", ...; "1": a number without one; "text"
  std::string_view text;   // a '*' in it is replaced by what it stands for in the name
};

// All of them: groups in the file's order, each first, its datasets after it.
[[nodiscard]] std::span<const Description> descriptions();

// Of a dataset, or of the group where `name` is empty; names without '*' before others. Null where
// there is none, which the tests do not let pass.
[[nodiscard]] const Description* find_description(std::string_view group, std::string_view name);

// Its text, for a dataset of this name.
[[nodiscard]] std::string text_of(const Description& description, std::string_view name);

// As Column and Cell have it: empty for "1", for "text" and for what has no description.
[[nodiscard]] std::string unit_of(std::string_view group, std::string_view name);

// Gives columns of this group what they lack of unit and description.
void describe(std::string_view group, const std::vector<FactorNote>& factors,
              std::vector<Column>& columns);

}  // namespace paceline
