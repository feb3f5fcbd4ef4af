#include "experiments/precision/component_dtypes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <span>

#include "experiments/precision/toy_model.h"
#include "model/batch.h"
#include "model/optimizer.h"
#include "model/transformer.h"
#include "model/weights_file.h"
#include "parallel/parallel_strategy.h"

namespace paceline {

namespace {

// The dtype under autocast for fp16 and bf16: the half type or float32. Source: PyTorch's
// "Automatic Mixed Precision package", lists of CUDA ops that autocast to float16, that autocast to
// float32, and that promote to the widest input.
enum class Autocast : std::uint8_t { low, float32 };

struct Component {
  std::string_view name;
  std::string_view pass;   // prefix of its scopes
  std::string_view scope;  // suffix of its scopes
  std::string_view op;
  std::string_view operand;
  Autocast autocast;
  std::string_view note = {};
};

// clang-format off
constexpr auto toy_components = std::to_array<Component>({
    {"parameters", "optimizer", "", "adamw", "parameters", Autocast::float32},
    {"fc1 output", "forward", "fc1", "matmul", "c", Autocast::low},
    {"ReLU output", "forward", "relu", "relu", "y", Autocast::low},
    {"LayerNorm statistics", "forward", "ln", "layer_norm", "rstd", Autocast::float32},
    {"LayerNorm output", "forward", "ln", "layer_norm", "y", Autocast::float32},
    {"logits", "forward", "fc2", "matmul", "c", Autocast::low},
    {"loss", "forward", "loss", "squared_error", "loss", Autocast::float32},
    {"gradients", "optimizer", "", "adamw", "gradients", Autocast::float32},
});

constexpr auto transformer_components = std::to_array<Component>({
    {"parameters", "optimizer", "", "adamw", "parameters", Autocast::float32},
    {"embedding", "forward", "embedding", "embedding", "y", Autocast::float32},
    {"residual stream", "forward", "", "add", "y", Autocast::float32},
    {"RMSNorm statistics", "forward", "", "rms_norm", "rstd", Autocast::float32},
    {"RMSNorm output", "forward", "", "rms_norm", "y", Autocast::float32, "rounded as the next Linear would"},
    {"q, k, v, output", "forward", "/attention", "matmul", "c", Autocast::low},
    {"rotated q, k", "forward", "/attention", "rope", "qkv", Autocast::float32, "rounded as q k^T would"},
    {"scores", "forward", "computing attention scores", "matmul", "c", Autocast::low},
    {"softmax output", "forward", "computing softmax", "softmax", "y", Autocast::float32, "rounded as P V would"},
    {"attention output", "forward", "final matmul", "matmul", "c", Autocast::low},
    {"SwiGLU output", "forward", "/ffn", "swiglu", "z", Autocast::low},
    {"logits", "forward", "head/logits", "matmul", "c", Autocast::low},
    {"logsumexp", "forward", "head", "cross_entropy", "logsumexp", Autocast::float32},
    {"loss", "forward", "head", "cross_entropy", "loss", Autocast::float32},
    {"gradients", "optimizer", "", "adamw", "gradients", Autocast::float32},
    {"AdamW's m", "optimizer", "", "adamw", "m", Autocast::float32},
    {"AdamW's v", "optimizer", "", "adamw", "v", Autocast::float32},
});
// clang-format on

std::span<const Component> components_of(StudiedModel model) {
  switch (model) {
    case StudiedModel::toy: return toy_components;
    case StudiedModel::transformer: return transformer_components;
  }
  throw_unnamed(static_cast<std::size_t>(model));
}

// Uses only the precision's name; its fields are what is checked.
Dtype dtype_of_autocast(Autocast autocast, const Precision& precision) {
  if (autocast == Autocast::float32) return Dtype::f32;
  if (precision.name == "bf16") return Dtype::bf16;
  return precision.name == "fp16" ? Dtype::f16 : Dtype::f32;
}

bool is_of(const Component& c, const LoggedOperand& o) {
  return o.op == c.op && o.operand == c.operand && o.scope.starts_with(c.pass) &&
         o.scope.ends_with(c.scope);
}

std::string dtypes_in(const OpLog& log, const Component& component) {
  std::vector<Dtype> found;
  std::string text;
  for (const LoggedOperand& o : log.operands()) {
    const bool is_known = std::find(found.begin(), found.end(), o.dtype) != found.end();
    if (is_known || !is_of(component, o)) continue;
    text += fmt::format("{}{}", found.empty() ? "" : ", ", name_of(o.dtype));
    found.push_back(o.dtype);
  }
  return text;
}

void run_transformer_step(Device& device, Ops& ops, std::uint64_t seed) {
  constexpr std::int64_t batch = 2;
  ModelConfig config = model_of(ModelSize::tiny);
  config.context = 16;
  const Precision& p = ops.precision();
  Transformer model(device, config, p);
  initialise_weights(ops, model.store(), seed);
  const StepState state =
      StepState::create(device, batch, config.context, p.loss, p.loss_scaling, 1e-3);
  const Batch tokens = random_batch(
      {.first_row = 0, .rows = batch, .context = config.context, .vocab = config.vocab}, seed);
  device.to_device(state.tokens, tokens.tokens.data());
  device.to_device(state.targets, tokens.targets.data());
  const std::unique_ptr<ParallelStrategy> alone =
      make_strategy({.strategy = Strategy::none}, model.store(), ops, nullptr);
  alone->begin_step();
  {
    const Scope pass(device.scopes(), "forward");
    model.forward(ops, state, *alone, {});
  }
  {
    const Scope pass(device.scopes(), "backward");
    model.store().allocate_gradients();
    model.backward(ops, state, *alone);
  }
  const Scope pass(device.scopes(), "optimizer");
  AdamW(model.store(), AdamWConfig{}, alone->shard()).step(ops, state);
  device.synchronize();
}

// Empty if the row has no such column.
std::string text_in(const Row& row, std::string_view name) {
  const Cell* cell = find_column(row, name);
  return cell == nullptr ? "" : to_text(cell->value);
}

// The component's column in the summary: "dtype_fc1_output".
std::string column_of(std::string_view component) {
  std::string name = "dtype_";
  for (const char c : component) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      name += c;
    } else if (name.back() != '_') {
      name += '_';
    }
  }
  return name;
}

// Distinct operands in the order of their first calls.
Table operands_table(const OpLog& log) {
  TableRows rows("operands");
  std::vector<LoggedOperand> seen;
  for (const LoggedOperand& o : log.operands()) {
    if (std::find(seen.begin(), seen.end(), o) != seen.end()) continue;
    seen.push_back(o);
    rows.add({{"scope", o.scope},
              {"op", o.op},
              {"operand", o.operand},
              {"dtype", std::string(name_of(o.dtype))}});
  }
  return rows.take();
}

}  // namespace

OpLog run_logged_step(Device& device, const DtypesFactors& c, std::uint64_t seed) {
  OpLog log;
  const std::unique_ptr<Ops> ops = make_logged_ops(device, {.precision = c.precision}, log);
  switch (c.model) {
    case StudiedModel::toy:
      run_toy_step(device, *ops, *make_logged_toy_ops(device, log), seed);
      break;
    case StudiedModel::transformer: run_transformer_step(device, *ops, seed); break;
  }
  return log;
}

std::vector<ComponentDtype> component_dtypes(const DtypesFactors& c, const OpLog& log) {
  std::vector<ComponentDtype> all;
  for (const Component& component : components_of(c.model)) {
    ComponentDtype& one = all.emplace_back();
    one.component = component.name;
    one.op = component.op;
    one.operand = component.operand;
    one.dtype = dtypes_in(log, component);
    one.autocast = name_of(dtype_of_autocast(component.autocast, c.precision));
    const std::string_view low = name_of(dtype_of_autocast(Autocast::low, c.precision));
    if (!one.as_autocast() && one.dtype == low) one.note = component.note;
  }
  return all;
}

void add_dtypes(CaseRecord& record, const DtypesFactors& c, const OpLog& log) {
  TableRows rows("components");
  std::int64_t same = 0;
  const std::vector<ComponentDtype> all = component_dtypes(c, log);
  for (const ComponentDtype& one : all) {
    rows.add({{"component", one.component},
              {"op", one.op},
              {"operand", one.operand},
              {"dtype", one.dtype},
              {"autocast", one.autocast},
              {"note", one.note}});
    record.add(column_of(one.component), one.dtype);
    if (one.as_autocast()) ++same;
    if (one.is_right() || record.status == Status::mismatch) continue;
    record.status = Status::mismatch;
    record.reason = fmt::format("{} is {} here, {} under autocast; see components/", one.component,
                                one.dtype.empty() ? "missing" : one.dtype, one.autocast);
  }
  record.add("components", static_cast<std::int64_t>(all.size()));
  record.add("as_autocast", same);
  record.add("logged_operands", static_cast<std::int64_t>(log.operands().size()));
  record.tables.push_back(rows.take());
  record.tables.push_back(operands_table(log));
}

std::vector<Table> dtypes_by_precision(const std::vector<Row>& summary) {
  std::vector<std::string> precisions;
  for (const Row& row : summary) {
    const std::string& name = value_in<std::string>(row, "precision");
    if (std::find(precisions.begin(), precisions.end(), name) == precisions.end()) {
      precisions.push_back(name);
    }
  }
  TableRows rows("dtypes");
  for (const StudiedModel model : {StudiedModel::toy, StudiedModel::transformer}) {
    const auto dtype_of = [&](const Component& component, const std::string& precision) {
      for (const Row& row : summary) {
        const bool is_it =
            text_in(row, "model") == name_of(model) && text_in(row, "precision") == precision;
        if (is_it) return text_in(row, column_of(component.name));
      }
      return std::string();
    };
    for (const Component& component : components_of(model)) {
      Row cells = {{"model", std::string(name_of(model))},
                   {"component", std::string(component.name)}};
      bool has_value = false;
      for (const std::string& precision : precisions) {
        cells.push_back({precision, dtype_of(component, precision)});
        has_value = has_value || cells.back().value != Value(std::string());
      }
      const bool is_low = component.autocast == Autocast::low;
      cells.push_back({"autocast", is_low ? "half type" : "float32"});
      cells.push_back({"note", std::string(component.note)});
      if (has_value) rows.add(cells);
    }
  }
  if (rows.empty()) return {};
  return {rows.take()};
}

}  // namespace paceline
