#pragma once
// The factors by which a case says how it attends, of every experiment that does.

#include <string>
#include <vector>

#include "core/ops.h"
#include "harness/option_parser.h"
#include "measure/case.h"

namespace paceline {

// --attention and --fp32-attention.
void add_attention_options(OptionParser& p, std::vector<std::string>& attentions,
                           std::vector<std::string>& fp32_attentions);
// Throws UsageError for --fp32-attention by name where it applies to nothing.
void check_attention_options(const OptionParser& p, const std::vector<std::string>& attentions,
                             const std::vector<std::string>& precisions);

// --flash-kernels; the same of it.
void add_flash_kernels_option(OptionParser& p, std::vector<std::string>& kernels);
void check_flash_kernels_option(const OptionParser& p, const std::vector<std::string>& attentions,
                                const std::vector<std::string>& precisions,
                                const std::vector<std::string>& fp32_attentions);

// Another axis, fp32_attention, of the cases that are flash attention of fp32; with precision tf32
// it is tf32, and others lack it.
[[nodiscard]] std::vector<Case> with_fp32_attention(const std::vector<Case>& cases,
                                                    const std::vector<std::string>& modes);
// Another axis, flash_kernels, of the cases that are flash attention of bf16, fp16 or, by their
// fp32_attention, near: there alone is a choice.
[[nodiscard]] std::vector<Case> with_flash_kernels(const std::vector<Case>& cases,
                                                   const std::vector<std::string>& kernels);

// Throws UsageError for a precision that the case's device has not.
void check_precision(const Case& c);

// By the factors precision, attention, fp32_attention, flash_kernels and deterministic.
[[nodiscard]] OpsConfig ops_config_of(const Case& c);

}  // namespace paceline
