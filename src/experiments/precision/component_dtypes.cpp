#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <regex>

#include "experiments/precision/precision.h"

namespace paceline {

namespace {

// The dtype under autocast for fp16 and bf16: the half type or float32. Source: PyTorch's
// "Automatic Mixed Precision package", lists of CUDA ops that autocast to float16, that autocast to
// float32, and that promote to the widest input.
enum class Autocast : std::uint8_t { low, float32 };

struct Component {
  StudiedModel model;
  std::string_view name;
  Autocast autocast;
  std::string_view tensors = {};  // the end of their names in the log; empty: the component's name
  std::string_view note = {};     // the reason for an intended difference
};

constexpr auto components = [] {
  using enum StudiedModel;
  using enum Autocast;
  return std::to_array<Component>({
      {toy, "parameters", float32},
      {toy, "fc1 output", low},
      {toy, "ReLU output", low},
      {toy, "LayerNorm statistics", float32},
      {toy, "LayerNorm output", float32},
      {toy, "logits", low},
      {toy, "loss", float32},
      {toy, "gradients", float32},
      {transformer, "parameters", float32},
      {transformer, "embedding", float32, "/embedding 0"},
      {transformer, "residual stream", float32, "/add 0"},
      {transformer, "RMSNorm statistics", float32, "/rms_norm 1"},
      {transformer, "RMSNorm output", float32, "/rms_norm 0", "rounded as the next Linear would"},
      {transformer, "q, k, v, output", low, "/attention/matmul 0"},
      {transformer, "rotated q, k", float32, "/rope 0", "rounded as q k^T would"},
      {transformer, "scores", low, "/computing attention scores/matmul 0"},
      {transformer, "softmax output", float32, "/softmax 0", "rounded as P V would"},
      {transformer, "attention output", low, "/final matmul/matmul 0"},
      {transformer, "SwiGLU output", low, "/swiglu 0"},
      {transformer, "logits", low, "/logits/matmul 0"},
      {transformer, "logsumexp", float32, "/cross_entropy 1"},
      {transformer, "loss", float32},
      {transformer, "gradients", float32},
      {transformer, "AdamW's m", float32},
      {transformer, "AdamW's v", float32},
  });
}();

// Uses only the precision's name; its fields are what is checked.
Dtype dtype_of_autocast(Autocast autocast, const Precision& precision) {
  if (autocast == Autocast::float32) return Dtype::f32;
  if (precision.name == "bf16") return Dtype::bf16;
  return precision.name == "fp16" ? Dtype::f16 : Dtype::f32;
}

// "float16"; all dtypes if several were logged; empty if none was.
std::string dtypes_in(const DtypeLog& log, const Component& component) {
  std::set<std::string_view> found;
  for (const auto& [name, dtypes] : log) {
    if (!name.ends_with(component.tensors.empty() ? component.name : component.tensors)) continue;
    for (const Dtype dtype : dtypes) found.insert(name_of(dtype));
  }
  return fmt::format("{}", fmt::join(found, ", "));
}

// The component's column in the summary: "dtype_fc1_output".
std::string column_of(std::string_view component) {
  static const std::regex others("[^A-Za-z0-9]+");
  return "dtype_" + std::regex_replace(std::string(component), others, "_");
}

}  // namespace

void add_dtypes(CaseRecord& record, Device& device, const PrecisionCase& c, std::uint64_t seed) {
  const DtypeLog log = logged_step(device, c, seed);
  const std::string_view low = name_of(dtype_of_autocast(Autocast::low, c.precision));
  std::int64_t count = 0;
  std::int64_t same = 0;
  for (const Component& component : components) {
    if (component.model != c.model) continue;
    const std::string_view autocast = name_of(dtype_of_autocast(component.autocast, c.precision));
    const std::string dtype = dtypes_in(log, component);
    record.add(column_of(component.name), dtype);
    ++count;
    if (dtype == autocast) ++same;
    const bool is_right = dtype == autocast || (dtype == low && !component.note.empty());
    if (is_right || record.status == Status::mismatch) continue;
    record.status = Status::mismatch;
    record.reason = fmt::format("{} is {} here, {} under autocast", component.name,
                                dtype.empty() ? "missing" : dtype, autocast);
  }
  record.add("components", count);
  record.add("as_autocast", same);
}

std::vector<Table> dtypes_by_precision(const std::vector<Row>& summary) {
  TableRows rows("dtypes");
  for (const Component& component : components) {
    Row cells = {{"model", std::string(name_of(component.model))},
                 {"component", std::string(component.name)}};
    bool has_value = false;
    for (const Row& row : summary) {
      const std::string& precision = value_in<std::string>(row, "precision");
      auto cell = std::find_if(cells.begin(), cells.end(),
                               [&](const Cell& one) { return one.name == precision; });
      if (cell == cells.end()) cell = cells.insert(cell, {precision, std::string()});
      if (value_in<std::string>(row, "model") != name_of(component.model)) continue;
      cell->value = value_in<std::string>(row, column_of(component.name));
      has_value = true;
    }
    const bool is_low = component.autocast == Autocast::low;
    cells.push_back({"autocast", is_low ? "half type" : "float32"});
    cells.push_back({"note", std::string(component.note)});
    if (has_value) rows.add(cells);
  }
  if (rows.empty()) return {};
  return {rows.take()};
}

}  // namespace paceline
