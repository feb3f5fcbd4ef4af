#include "experiments/precision/number_bits.h"

#include <cmath>

namespace paceline {

void add_bits(CaseRecord& record, const BitsFactors& c) {
  const FloatFormat& format = format_of(c.format);
  const double x = c.number.value;
  const EncodedNumber number = encode(format, x);
  const double rounded = decode(format, number);
  record.add("sign_bit", bits_text(number.negative ? 1 : 0, 1));
  record.add("exponent_bits", bits_text(number.exponent, format.exponent_bits));
  record.add("mantissa_bits", bits_text(number.mantissa, format.mantissa_bits));
  record.add("number_kind", std::string(name_of(kind_of(format, number))));
  record.add("rounded", rounded);
  record.add("rounded_error", rounded == x ? 0 : rounded - x);
  record.add("unit_roundoff", format.unit_roundoff());
}

}  // namespace paceline
