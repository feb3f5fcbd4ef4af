#include "experiments/attention/attention_factors.h"

#include <algorithm>

#include "core/error.h"

namespace paceline {

namespace {

const std::vector<std::string> attention_names = {"naive", "fused", "flash"};
const std::vector<std::string> fp32_names = {"exact", "near", "tf32"};
const std::vector<std::string> kernel_names = {"newest", "sm80"};

// The enumerator that stands where the name does.
template <class E>
E named(const std::vector<std::string>& names, const std::string& name) {
  const auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end()) throw InternalError("'" + name + "' is no kind of attention");
  return static_cast<E>(it - names.begin());
}

bool has(const std::vector<std::string>& values, const char* value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

void add_attention_options(OptionParser& p, std::vector<std::string>& attentions,
                           std::vector<std::string>& fp32_attentions) {
  std::string defaults;
  for (const std::string& name : attentions) defaults += (defaults.empty() ? "" : ",") + name;
  p.choices(
      "--attention", attentions, attention_names,
      "naive (an operation each), fused (scale, mask and softmax in one), flash (nothing of T "
      "x T is kept), a,b [" +
          defaults + "]");
  p.choices("--fp32-attention", fp32_attentions, fp32_names,
            "products of flash attention on fp32: exact, near (two bf16 per operand), tf32, a,b "
            "[near]");
}

void check_attention_options(const OptionParser& p, const std::vector<std::string>& attentions,
                             const std::vector<std::string>& precisions) {
  if (!p.by_name("--fp32-attention") || (has(attentions, "flash") && has(precisions, "fp32"))) {
    return;
  }
  throw UsageError("--fp32-attention: goes with --attention flash and --precision fp32");
}

void add_flash_kernels_option(OptionParser& p, std::vector<std::string>& kernels) {
  p.choices(
      "--flash-kernels", kernels, kernel_names,
      "of flash attention on bf16, fp16 and fp32 as near: newest (of the GPU's generation), sm80 "
      "(Ampere's), a,b [newest]");
}

void check_flash_kernels_option(const OptionParser& p, const std::vector<std::string>& attentions,
                                const std::vector<std::string>& precisions,
                                const std::vector<std::string>& fp32_attentions) {
  const bool half = has(precisions, "bf16") || has(precisions, "fp16");
  const bool near = has(precisions, "fp32") && has(fp32_attentions, "near");
  if (!p.by_name("--flash-kernels") || (has(attentions, "flash") && (half || near))) return;
  throw UsageError(
      "--flash-kernels: goes with --attention flash and --precision bf16 or fp16, or fp32 with "
      "--fp32-attention near");
}

std::vector<Case> with_fp32_attention(const std::vector<Case>& cases,
                                      const std::vector<std::string>& modes) {
  return with_axis(cases, "fp32_attention", [&](const Case& c) -> std::vector<std::string> {
    if (c.text("attention") != "flash") return {};
    if (c.text("precision") == "fp32") return modes;
    if (c.text("precision") == "tf32") return {"tf32"};
    return {};
  });
}

std::vector<Case> with_flash_kernels(const std::vector<Case>& cases,
                                     const std::vector<std::string>& kernels) {
  return with_axis(cases, "flash_kernels", [&](const Case& c) -> std::vector<std::string> {
    const std::string& precision = c.text("precision");
    const bool half = precision == "bf16" || precision == "fp16";
    const bool near = c.has("fp32_attention") && c.text("fp32_attention") == "near";
    const bool chooses = c.text("attention") == "flash" && (half || near);
    return chooses ? kernels : std::vector<std::string>{};
  });
}

void check_precision(const Case& c) {
  if (c.text("precision") == "tf32" && c.text("device") == "cpu") {
    throw UsageError("--precision: tf32 needs a GPU; use fp32, bf16 or fp16 on the CPU");
  }
}

OpsConfig ops_config_of(const Case& c) {
  OpsConfig config{.precision = precision_named(c.text("precision")),
                   .attention = named<AttentionKind>(attention_names, c.text("attention")),
                   .deterministic = c.flag("deterministic")};
  if (c.has("comm_dtype") && c.text("comm_dtype") == "bf16") {
    config.precision.communication = Dtype::bf16;
  }
  if (c.has("fp32_attention")) {
    config.fp32_attention = named<Fp32Attention>(fp32_names, c.text("fp32_attention"));
  }
  if (c.has("flash_kernels")) {
    config.flash_kernels = named<FlashKernels>(kernel_names, c.text("flash_kernels"));
  }
  return config;
}

}  // namespace paceline
