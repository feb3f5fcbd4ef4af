#pragma once
// Figures of devices, from the vendors' data sheets or the user's file (plan --hardware-file).

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/precision.h"

namespace paceline {

// Figures that a sheet does not state are 0.
struct DataSheet {
  std::string device;  // the whole name that CUDA gives the GPU
  std::string name;    // of `plan --hardware`; empty: too little is known for a plan
  // Dense TFLOP/s, without sparsity.
  double half = 0;
  double tf32 = 0;
  double fp32 = 0;
  double memory_gb = 0;  // as written, which may mean GB or GiB
  double memory_gb_per_s = 0;
  // Sent by a device in a collective along one axis of the mesh (NVLink: one direction; a TPU's
  // ring: both directions), and by all network cards of a node together.
  double link_gb_per_s = 0;
  double network_gb_per_s = 0;
  int node_devices = 0;
  std::string source;  // for a plan

  // Empty if the sheet states none.
  [[nodiscard]] std::optional<double> flops_per_s(const Precision& precision) const;
};

[[nodiscard]] std::span<const DataSheet> data_sheets();
// Null for a device without a sheet, such as a MIG slice.
[[nodiscard]] const DataSheet* data_sheet_of(std::string_view device);

}  // namespace paceline
