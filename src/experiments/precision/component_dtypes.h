#pragma once
// The dtype of every component of a model, read off a training step that runs, beside that of
// PyTorch's autocast.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/precision/op_log.h"
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// A step of the model on the device, logged. Throws OutOfMemory.
[[nodiscard]] OpLog run_logged_step(Device& device, const DtypesFactors& c, std::uint64_t seed);

struct ComponentDtype {
  std::string component;  // "logits"
  std::string op;         // that got it: "matmul"
  std::string operand;    // "c"
  std::string dtype;      // "float16"; of several, all of them; empty: no such operation ran
  std::string autocast;   // its dtype there
  std::string note;       // why the two differ, where they are meant to

  [[nodiscard]] bool as_autocast() const { return dtype == autocast; }
  [[nodiscard]] bool is_right() const { return as_autocast() || !note.empty(); }
};
[[nodiscard]] std::vector<ComponentDtype> component_dtypes(const DtypesFactors& c,
                                                           const OpLog& log);

// mismatch where a component has neither autocast's dtype nor a reason.
void add_dtypes(CaseRecord& record, const DtypesFactors& c, const OpLog& log);

// "dtypes", of the summary's rows of this study: a row for each component of each model, a column
// for each precision. Nothing where there are none.
[[nodiscard]] std::vector<Table> dtypes_by_precision(const std::vector<Row>& summary);

}  // namespace paceline
