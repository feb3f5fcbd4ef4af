#include "experiments/training/memory_record.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "experiments/training/model.h"
#include "harness/gather.h"

namespace paceline {

namespace {

std::int64_t whole(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

const MemoryMark& mark_named(const std::vector<MemoryMark>& marks, std::string_view name) {
  const auto it = std::find_if(marks.rbegin(), marks.rend(),
                               [&](const MemoryMark& m) { return m.mark == name; });
  if (it == marks.rend()) throw InternalError("no memory mark is named " + std::string(name));
  return *it;  // of the steady step, which comes last
}

// In bytes.
double measured_of(const MemoryLine& line, const MemoryOutcome& measured) {
  const MemoryMark& mark = mark_named(measured.marks, "before backward");
  switch (line.measure) {
    case MemoryMeasure::kind:
      return static_cast<double>(mark.by_kind.at(static_cast<std::size_t>(line.kind)));
    case MemoryMeasure::scope: {
      std::size_t bytes = 0;
      for (const MemoryBlock& b : measured.kept) {
        if (b.kind == line.kind && b.scope.starts_with(line.scope)) bytes += b.bytes;
      }
      return static_cast<double>(bytes);
    }
    case MemoryMeasure::added_by_forward:
      return static_cast<double>(mark.phase_peak_bytes -
                                 mark_named(measured.marks, "after init").bytes);
    case MemoryMeasure::peak: return static_cast<double>(measured.peak_bytes);
  }
  throw InternalError("a closed form that is not measured");
}

}  // namespace

MemoryCounts count_memory(Device& device, std::string when) {
  return {.when = std::move(when),
          .ledger = device.ledger().bytes(),
          .reserved = device.reserved_bytes(),
          .driver = device.driver_bytes()};
}

Table blocks_table(const std::vector<MemoryBlock>& largest) {
  std::vector<std::int64_t> bytes;
  std::vector<std::string> kind;
  std::vector<std::string> scope;
  for (const MemoryBlock& block : largest) {
    bytes.push_back(whole(block.bytes));
    kind.emplace_back(name_of(block.kind));
    scope.push_back(block.scope);
  }
  return {"memory/blocks", {{"bytes", "bytes", bytes}, {"kind", "", kind}, {"scope", "", scope}}};
}

Table parameters_table(const ParameterStore& store, const std::vector<StoreArray>& arrays) {
  std::vector<std::string> array;
  std::vector<std::string> kind;
  std::vector<std::string> name;
  std::vector<std::int64_t> offset;
  std::vector<std::int64_t> bytes;
  for (const StoreArray& one : arrays) {
    const auto element = whole(size_of(one.values.dtype));
    for (const ParameterEntry& entry : store.entries()) {
      for (const ParameterView& view : entry.views) {
        array.emplace_back(one.name);
        kind.emplace_back(name_of(one.kind));
        name.push_back(view.name);
        offset.push_back((entry.offset + view.offset) * element);
        bytes.push_back(view.shape.numel() * element);
      }
    }
  }
  return {"memory/parameters",
          {{"array", "", array},
           {"kind", "", kind},
           {"name", "", name},
           {"offset", "bytes", offset},
           {"bytes", "bytes", bytes}}};
}

Table driver_table(const std::vector<MemoryCounts>& counts) {
  std::vector<std::string> when;
  std::vector<std::string> line;
  std::vector<std::int64_t> bytes;
  for (const MemoryCounts& c : counts) {
    const std::array<std::pair<const char*, std::size_t>, 4> lines = {
        {{"ledger", c.ledger},
         {"reserved by the allocator", c.reserved},
         {"driver says in use", c.driver},
         {"context and libraries", c.driver - std::min(c.reserved, c.driver)}}};
    for (const auto& [what, value] : lines) {
      when.push_back(c.when);
      line.emplace_back(what);
      bytes.push_back(whole(value));
    }
  }
  return {"memory/driver", {{"when", "", when}, {"line", "", line}, {"bytes", "bytes", bytes}}};
}

Table closed_form_table(const std::vector<MemoryLine>& lines, const MemoryOutcome& measured) {
  std::vector<std::string> what;
  std::vector<std::int64_t> found;
  std::vector<std::string> formula;
  std::vector<std::int64_t> predicted;
  std::vector<double> ratio;
  for (const MemoryLine& line : lines) {
    const double bytes = measured_of(line, measured);
    what.push_back(line.what);
    found.push_back(static_cast<std::int64_t>(bytes));
    formula.push_back(line.formula);
    predicted.push_back(static_cast<std::int64_t>(line.bytes));
    ratio.push_back(bytes / line.bytes);
  }
  return {"memory/closed_form",
          {{"what", "", what},
           {"measured", "bytes", found},
           {"formula", "", formula},
           {"predicted", "bytes", predicted},
           {"ratio", "", ratio}}};
}

Table timeline_table(const std::vector<MemoryEvent>& events) {
  std::vector<double> seconds;
  std::vector<std::int64_t> bytes;
  std::vector<std::int64_t> address;
  std::vector<std::string> kind;
  std::vector<std::string> scope;
  std::vector<std::string> phase;
  for (const MemoryEvent& e : events) {
    seconds.push_back(e.seconds);
    bytes.push_back(e.bytes);
    address.push_back(whole(e.address));
    kind.emplace_back(name_of(e.kind));
    scope.push_back(e.scope);
    phase.push_back(e.phase);
  }
  return {"memory/timeline",
          {{"seconds", "s", seconds},
           {"bytes", "bytes", bytes},
           {"address", "", address},
           {"kind", "", kind},
           {"scope", "", scope},
           {"phase", "", phase}}};
}

void ModelExperiment::add_memory(CaseRecord& record, const Outcome& outcome) const {
  add_marks(record, outcome.memory);
  if (world_.rank() != 0) return;
  record.tables.push_back(blocks_table(outcome.memory.largest));
  record.tables.push_back(outcome.parameters);
  record.tables.push_back(driver_table(outcome.memory.counts));
  record.tables.push_back(closed_form_table(memory_lines(record.factors), outcome.memory));
  if (!outcome.memory.timeline.empty()) {
    record.tables.push_back(timeline_table(outcome.memory.timeline));
  }
  record.summary.push_back(
      number("predicted_peak_bytes", "bytes", predict(record.factors).memory_bytes));
}

// Every rank passes the same marks in the same order; their numbers differ.
void ModelExperiment::add_marks(CaseRecord& record, const MemoryOutcome& memory) const {
  constexpr std::size_t now = 2 + memory_kinds;  // numbers at a mark: active, peak, by kind
  constexpr std::size_t numbers = now + 1 + memory_kinds;  // and of the phase before it
  std::vector<double> mine = {static_cast<double>(memory.peak_bytes)};
  const auto add = [&](std::size_t bytes) { mine.push_back(static_cast<double>(bytes)); };
  for (const MemoryMark& m : memory.marks) {
    add(m.bytes);
    add(m.peak_bytes);
    for (const std::size_t bytes : m.by_kind) add(bytes);
    add(m.phase_peak_bytes);
    for (const std::size_t bytes : m.phase_peak_by_kind) add(bytes);
  }
  const auto all = gather_doubles(world_, mine);
  if (world_.rank() != 0) return;

  const auto table = [&](const char* path, const char* place, auto name,
                         const std::vector<std::string>& first_columns, std::size_t first) {
    std::vector<std::int64_t> rank;
    std::vector<std::string> step;
    std::vector<std::string> where;
    std::vector<std::vector<std::int64_t>> columns(first_columns.size() + memory_kinds);
    for (std::size_t r = 0; r < all.size(); ++r) {
      for (std::size_t i = 0; i < memory.marks.size(); ++i) {
        const MemoryMark& m = memory.marks[i];
        if (name(m).empty()) continue;
        rank.push_back(static_cast<std::int64_t>(r));
        step.push_back(m.step);
        where.push_back(name(m));
        for (std::size_t n = 0; n < columns.size(); ++n) {
          columns[n].push_back(static_cast<std::int64_t>(all[r][1 + i * numbers + first + n]));
        }
      }
    }
    Table t{path, {{"rank", "", rank}, {"step", "", step}, {place, "", where}}};
    for (std::size_t n = 0; n < columns.size(); ++n) {
      const std::size_t k = n - first_columns.size();
      t.columns.push_back({n < first_columns.size()
                               ? first_columns[n]
                               : std::string(name_of(static_cast<MemoryKind>(k))),
                           "bytes", columns[n]});
    }
    return t;
  };
  record.tables.push_back(table(
      "memory", "mark", [](const MemoryMark& m) { return m.mark; }, {"active", "peak"}, 0));
  record.tables.push_back(table(
      "memory/phases", "phase", [](const MemoryMark& m) { return m.phase; }, {"peak"}, now));

  double peak = 0;
  double before_backward = 0;
  double optimizer_state = 0;
  constexpr std::size_t of_optimizer = 2 + static_cast<std::size_t>(MemoryKind::optimizer_state);
  for (const std::vector<double>& of_rank : all) {
    peak = std::max(peak, of_rank[0]);
    for (std::size_t i = 0; i < memory.marks.size(); ++i) {
      const MemoryMark& m = memory.marks[i];
      if (m.step == "steady" && m.mark == "before backward") {
        before_backward = std::max(before_backward, of_rank[1 + i * numbers]);
      }
      optimizer_state = std::max(optimizer_state, of_rank[1 + i * numbers + of_optimizer]);
    }
  }
  record.summary.push_back(number("memory_before_backward_bytes", "bytes", before_backward));
  record.summary.push_back(number("optimizer_state_bytes", "bytes", optimizer_state));
  record.summary.push_back(number("peak_bytes", "bytes", peak));
}

}  // namespace paceline
