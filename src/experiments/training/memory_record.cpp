#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "experiments/training/training_records.h"
#include "harness/gather.h"

namespace paceline {

namespace {

std::int64_t whole(std::size_t bytes) { return static_cast<std::int64_t>(bytes); }

const MemoryMark& mark_named(const std::vector<MemoryMark>& marks, std::string_view name) {
  const auto it = std::find_if(marks.rbegin(), marks.rend(),
                               [&](const MemoryMark& m) { return m.mark == name; });
  if (it == marks.rend()) throw InternalError("no memory mark is named " + std::string(name));
  return *it;  // the last one is the steady step's
}

// The measured bytes that a closed form is compared with.
double measured_of(const MemoryLine& line, const StepRunner& runner, std::size_t peak_bytes) {
  const MemoryMark& mark = mark_named(runner.marks(), "before backward");
  switch (line.measure) {
    case MemoryMeasure::kind:
      return static_cast<double>(mark.by_kind.at(static_cast<std::size_t>(line.kind)));
    case MemoryMeasure::scope: {
      std::size_t bytes = 0;
      for (const Allocation& b : runner.kept()) {
        if (b.kind == line.kind && b.scope.starts_with(line.scope)) bytes += b.bytes;
      }
      return static_cast<double>(bytes);
    }
    case MemoryMeasure::added_by_forward:
      return static_cast<double>(mark.phase_peak_bytes -
                                 mark_named(runner.marks(), "after init").bytes);
    case MemoryMeasure::peak: return static_cast<double>(peak_bytes);
  }
  throw InternalError("unknown memory measure");
}

// The largest blocks of a steady step with their scopes and shapes.
Table blocks_table(const std::vector<Allocation>& largest) {
  TableRows rows("memory/blocks");
  for (const Allocation& block : largest) {
    rows.add({{"bytes", whole(block.bytes)},
              {"kind", std::string(name_of(block.kind))},
              {"scope", block.scope},
              {"shape", block.shape.str()},
              {"dtype", std::string(name_of(block.dtype))}});
  }
  return rows.take();
}

// The counts, and the driver's count minus the allocator's: the CUDA context and libraries.
Table driver_table(const std::vector<MemoryCounts>& counts) {
  TableRows rows("memory/driver");
  for (const MemoryCounts& c : counts) {
    const std::array<std::pair<const char*, std::size_t>, 4> lines = {
        {{"ledger", c.ledger},
         {"reserved by the allocator", c.reserved},
         {"driver says in use", c.driver},
         {"context and libraries", c.driver - std::min(c.reserved, c.driver)}}};
    for (const auto& [what, bytes] : lines) {
      rows.add({{"when", c.when}, {"line", what}, {"bytes", whole(bytes)}});
    }
  }
  return rows.take();
}

// Measured bytes and closed forms of rank 0.
Table closed_form_table(const TrainingCase& c, const StepRunner& runner, std::size_t peak_bytes) {
  StepShape of_rank_0 = c.step_shape();
  of_rank_0.optimizer_share = c.strategy_shape().optimizer_shares().front();
  TableRows rows("memory/closed_form");
  for (const MemoryLine& line : memory_lines(of_rank_0)) {
    const double bytes = measured_of(line, runner, peak_bytes);
    rows.add({{"what", line.what},
              {"measured", static_cast<std::int64_t>(bytes)},
              {"formula", line.formula},
              {"predicted", static_cast<std::int64_t>(line.bytes)},
              {"ratio", bytes / line.bytes}});
  }
  return rows.take();
}

// "memory": bytes in use at each mark; "memory/phases": peaks of the phases between marks.
void add_mark_tables(CaseRecord& record, const std::vector<MemoryMark>& marks,
                     const std::vector<std::vector<MemoryNumbers>>& all) {
  const auto with_kinds = [](std::vector<Cell> row, const BytesByKind& bytes) {
    for (std::size_t k = 0; k < memory_kinds; ++k) {
      row.push_back({std::string(name_of(static_cast<MemoryKind>(k))), whole(bytes.at(k))});
    }
    return row;
  };
  TableRows at_marks("memory");
  TableRows of_phases("memory/phases");
  for (std::size_t r = 0; r < all.size(); ++r) {
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const MemoryNumbers& n = all[r][i];
      const Cell rank = {"rank", static_cast<std::int64_t>(r)};
      const Cell step = {"step", marks[i].step};
      at_marks.add(with_kinds({rank,
                               step,
                               {"mark", marks[i].mark},
                               {"active", whole(n.bytes)},
                               {"peak", whole(n.peak_bytes)}},
                              n.by_kind));
      if (marks[i].phase.empty()) continue;
      of_phases.add(
          with_kinds({rank, step, {"phase", marks[i].phase}, {"peak", whole(n.phase_peak_bytes)}},
                     n.phase_peak_by_kind));
    }
  }
  record.tables.push_back(at_marks.take());
  record.tables.push_back(of_phases.take());
}

// Collective. Every rank has the same marks in the same order; their numbers differ.
void add_marks(CaseRecord& record, World& world, const std::vector<MemoryMark>& marks,
               std::size_t peak_bytes) {
  const std::vector<MemoryNumbers> mine(marks.begin(), marks.end());
  const auto all = gather_values(world, mine);
  const double peak = world.max(static_cast<double>(peak_bytes));
  if (world.rank() != 0) return;
  add_mark_tables(record, marks, all);

  std::size_t before_backward = 0;
  std::size_t optimizer_state = 0;
  for (const std::vector<MemoryNumbers>& of_rank : all) {
    for (std::size_t i = 0; i < marks.size(); ++i) {
      const MemoryMark& m = marks[i];
      if (m.step == "steady" && m.mark == "before backward") {
        before_backward = std::max(before_backward, of_rank[i].bytes);
      }
      optimizer_state =
          std::max(optimizer_state,
                   of_rank[i].by_kind.at(static_cast<std::size_t>(MemoryKind::optimizer_state)));
    }
  }
  record.add("memory_before_backward_bytes", static_cast<double>(before_backward));
  record.add("optimizer_state_bytes", static_cast<double>(optimizer_state));
  record.add("peak_bytes", peak);
}

}  // namespace

MemoryCounts count_memory(Device& device, std::string when) {
  return {.when = std::move(when),
          .ledger = device.ledger().bytes(),
          .reserved = device.reserved_bytes(),
          .driver = device.driver_bytes()};
}

void add_memory(CaseRecord& record, World& world, const TrainingCase& c, const StepRunner& runner,
                const MemoryLedger& ledger, const std::vector<MemoryCounts>& counts) {
  add_marks(record, world, runner.marks(), ledger.peak());
  if (world.rank() != 0) return;
  record.tables.push_back(blocks_table(ledger.largest(16)));
  record.tables.push_back(driver_table(counts));
  record.tables.push_back(closed_form_table(c, runner, ledger.peak()));
  record.add("predicted_peak_bytes", memory_form(c.step_shape()).peak());
}

void add_memory_timeline(CaseRecord& record, const std::vector<MemoryEvent>& events,
                         const ParameterStore& store, const std::vector<StoreArray>& arrays) {
  TableRows timeline("memory/timeline");
  for (const MemoryEvent& e : events) {
    timeline.add({{"seconds", e.seconds},
                  {"bytes", std::int64_t{e.bytes}},
                  {"address", whole(e.address)},
                  {"kind", std::string(name_of(e.kind))},
                  {"scope", e.scope},
                  {"phase", e.phase}});
  }
  record.tables.push_back(timeline.take());
  TableRows parameters("memory/parameters");
  for (const StoreArray& one : arrays) {
    const auto element = whole(size_of(one.values.dtype));
    for (const ParameterEntry& entry : store.entries()) {
      for (const ParameterView& view : entry.views) {
        parameters.add({{"array", std::string(one.name)},
                        {"kind", std::string(name_of(one.kind))},
                        {"name", view.name},
                        {"offset", (entry.offset + view.offset) * element},
                        {"bytes", view.shape.numel() * element}});
      }
    }
  }
  record.tables.push_back(parameters.take());
}

}  // namespace paceline
