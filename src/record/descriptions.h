#pragma once
// The unit and description of each dataset of a result file. Files have them as attributes, and
// docs/file-format.md is made from them. Those of factors come from their declarations
// (measure/factors.h).

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/hdf5.h"
#include "measure/case.h"
#include "record/case_record.h"

namespace paceline {

struct Description {
  std::string_view group;  // "summary", "memory/blocks": of a case or of the whole file
  std::string_view name;   // of the dataset; '*' stands for any text; empty: the group itself
  std::string_view unit;   // "s", "bytes", ...; "1": a number without one; "text"
  std::string_view text;   // a '*' is replaced by the text that '*' matches in the name
};

// All descriptions, in the file's order: each group, followed by its datasets.
[[nodiscard]] std::span<const Description> descriptions();

// The description of a dataset, or of the group if `name` is empty; exact names are preferred to
// names with '*'. Null if there is none, which fails the tests.
[[nodiscard]] const Description* find_description(std::string_view group, std::string_view name);

// The description's text for a dataset of this name.
[[nodiscard]] std::string text_of(const Description& description, std::string_view name);

// The unit in the form that Column and Cell have: empty for "1", "text" and without a description.
[[nodiscard]] std::string unit_of(std::string_view group, std::string_view name);

// Sets the units and descriptions that columns of this group lack.
void describe(std::string_view group, const std::vector<FactorNote>& factors,
              std::vector<Column>& columns);

// Throws Hdf5Error if a result file has numbers in place of the text that a description names, or
// text in place of numbers; or if a factor is text as an attribute and a number in the summary, or
// the reverse; or if the columns of a table differ in length.
void require_described_types(const hdf5::File& file);

}  // namespace paceline
