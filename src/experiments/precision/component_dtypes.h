#pragma once
// The dtype of every component of a model, logged in a real training step, and its dtype under
// PyTorch's autocast.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/precision/op_log.h"
#include "experiments/precision/precision_case.h"
#include "record/case_record.h"

namespace paceline {

// Runs a training step of the model and returns its log. Throws OutOfMemory.
[[nodiscard]] OpLog run_logged_step(Device& device, const DtypesFactors& c, std::uint64_t seed);

struct ComponentDtype {
  std::string component;  // "logits"
  std::string op;         // the operation that reads or writes it: "matmul"
  std::string operand;    // the operation's operand: "c"
  std::string dtype;      // "float16"; all dtypes if several were logged; empty if none was
  std::string autocast;   // its dtype under autocast
  std::string note;       // the reason for an intended difference

  [[nodiscard]] bool as_autocast() const { return dtype == autocast; }
  [[nodiscard]] bool is_right() const { return as_autocast() || !note.empty(); }
};
[[nodiscard]] std::vector<ComponentDtype> component_dtypes(const DtypesFactors& c,
                                                           const OpLog& log);

// Sets the status `mismatch` if a component differs from autocast without a note.
void add_dtypes(CaseRecord& record, const DtypesFactors& c, const OpLog& log);

// Table "dtypes" from the summary's rows of this study: one row per model and component, one column
// per precision. Empty without such rows.
[[nodiscard]] std::vector<Table> dtypes_by_precision(const std::vector<Row>& summary);

}  // namespace paceline
