#pragma once
// Element types. Half types (bf16, f16) are storage types: arithmetic on them is done in float.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/enum_names.h"

namespace paceline {

enum class Dtype : std::uint8_t { f64, f32, bf16, f16, i32 };
constexpr auto names_of(Dtype) {
  return names("float64", "float32", "bfloat16", "float16", "int32");
}

// bfloat16: the upper half of a float, rounded to nearest even; NaN stays NaN.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  explicit bf16(float x) {
    const auto u = std::bit_cast<std::uint32_t>(x);
    const std::uint32_t rounded = u + 0x7fffU + ((u >> 16U) & 1U);
    const bool nan = (u & 0x7fffffffU) > 0x7f800000U;
    bits = static_cast<std::uint16_t>((nan ? (u | 0x400000U) : rounded) >> 16U);
  }
  explicit operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
  }
};

// IEEE binary16. The compiler's _Float16 converts, with F16C instructions if available.
struct f16 {
  _Float16 value = 0;

  f16() = default;
  explicit f16(float x) : value(static_cast<_Float16>(x)) {}
  explicit operator float() const { return static_cast<float>(value); }
};

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2);

template <class T>
consteval Dtype dtype_of_type() {
  if constexpr (std::is_same_v<T, double>) return Dtype::f64;
  if constexpr (std::is_same_v<T, float>) return Dtype::f32;
  if constexpr (std::is_same_v<T, bf16>) return Dtype::bf16;
  if constexpr (std::is_same_v<T, f16>) return Dtype::f16;
  if constexpr (std::is_same_v<T, std::int32_t>) return Dtype::i32;
}
template <class T>
inline constexpr Dtype dtype_of = dtype_of_type<T>();

// Bytes of an element.
[[nodiscard]] constexpr std::size_t size_of(Dtype d) {
  switch (d) {
    case Dtype::f64: return 8;
    case Dtype::f32:
    case Dtype::i32: return 4;
    case Dtype::bf16:
    case Dtype::f16: return 2;
  }
  throw_unnamed(static_cast<std::size_t>(d));
}
// The same, as a factor of formulas.
[[nodiscard]] constexpr double bytes_of(Dtype d) { return static_cast<double>(size_of(d)); }

// Half the distance from 1 to the next larger number: the bound of the relative error of one
// rounding. 0 for int32.
[[nodiscard]] constexpr double unit_roundoff(Dtype d) {
  switch (d) {
    case Dtype::f64: return 0x1p-53;
    case Dtype::f32: return 0x1p-24;
    case Dtype::bf16: return 0x1p-8;
    case Dtype::f16: return 0x1p-11;
    case Dtype::i32: return 0;
  }
  throw_unnamed(static_cast<std::size_t>(d));
}

// Throws InternalError.
[[noreturn]] void throw_not_floating(Dtype d);

// Calls f.template operator()<T>() with the C++ type of a floating dtype. Throws InternalError for
// int32.
template <class F>
decltype(auto) dispatch_floating(Dtype d, F&& f) {
  switch (d) {
    case Dtype::f64: return f.template operator()<double>();
    case Dtype::f32: return f.template operator()<float>();
    case Dtype::bf16: return f.template operator()<bf16>();
    case Dtype::f16: return f.template operator()<f16>();
    case Dtype::i32: break;
  }
  throw_not_floating(d);
}

}  // namespace paceline
