#include "model/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "core/error.h"
#include "core/hdf5.h"
#include "core/random.h"
#include "core/step_state.h"

namespace paceline {

namespace {

constexpr std::uint64_t token_stream = 1ULL << 40U;  // initial weights use streams 0, 1, ...

// name: "tokens" of a matrix; empty: of one sequence, in which rows begin T tokens apart.
std::vector<std::int32_t> checked(const std::filesystem::path& file, const BatchShape& shape,
                                  std::string_view name, const std::vector<std::int64_t>& ids) {
  const auto wrong =
      std::ranges::find_if(ids, [&](auto id) { return id < 0 || id >= shape.vocab; });
  if (wrong != ids.end()) {
    const std::int64_t width = static_cast<std::int64_t>(ids.size()) / shape.rows;
    const std::int64_t row = shape.first_row + (wrong - ids.begin()) / width;
    const std::int64_t column = (wrong - ids.begin()) % width;
    refuse_tokens(file,
                  fmt::format("holds {} as {}; --vocab {} allows 0 to {}", *wrong,
                              name.empty() ? fmt::format("token {}", row * shape.context + column)
                                           : fmt::format("{}[{}, {}]", name, row, column),
                              shape.vocab, shape.vocab - 1));
  }
  return {ids.begin(), ids.end()};
}

// ids: T or T + 1 tokens of each row.
Batch with_next_tokens(const std::vector<std::int32_t>& ids, const BatchShape& shape) {
  const std::int64_t width = static_cast<std::int64_t>(ids.size()) / shape.rows;
  Batch batch;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto first = ids.begin() + row * width;
    batch.tokens.insert(batch.tokens.end(), first, first + shape.context);
    batch.targets.insert(batch.targets.end(), first + 1, first + width);
    if (width == shape.context) batch.targets.push_back(no_target);
  }
  return batch;
}

std::int64_t needed_rows(const BatchShape& shape) {
  return std::max(shape.all_rows, shape.first_row + shape.rows);
}

void require_matrix(const std::filesystem::path& file, const BatchShape& shape, std::int64_t rows,
                    std::int64_t columns, bool has_targets) {
  if (rows < needed_rows(shape) || columns < shape.context) {
    refuse_tokens(file, fmt::format("holds tokens [{}, {}]; [{}, {}] are needed", rows, columns,
                                    needed_rows(shape), shape.context));
  }
  if (!has_targets && columns == 1) {
    refuse_tokens(file,
                  "holds tokens of one column and no targets: no token has a next one to predict");
  }
}

hdf5::Dataset matrix_of(const std::filesystem::path& file, const hdf5::File& h5,
                        const std::string& name) {
  h5.refuse_external_link(name);
  hdf5::Dataset dataset = h5.dataset(name);
  if (dataset.dims().size() != 2 || dataset.type_class() != H5T_INTEGER) {
    refuse_tokens(file, fmt::format("holds '{}', which must be integers [rows, columns]", name));
  }
  dataset.require_readable();
  return dataset;
}

Batch load_hdf5(const std::filesystem::path& file, const BatchShape& shape,
                const std::optional<TokenDtype>& dtype) {
  const hdf5::CrashReport report("--tokens: " + file.string());
  const hdf5::File h5 = hdf5::File::open(file);
  if (!h5.has("tokens")) refuse_tokens(file, "has no dataset 'tokens'");
  const hdf5::Dataset tokens = matrix_of(file, h5, "tokens");
  const bool has_targets = h5.has("targets");
  const hdf5::Dims dims = tokens.dims();
  const auto columns = static_cast<std::int64_t>(dims[1]);
  const IntegerType type{.bytes = static_cast<std::int64_t>(tokens.element_size()),
                         .is_signed = tokens.is_signed()};
  require_dtype(file, type.name(), dtype);
  require_matrix(file, shape, static_cast<std::int64_t>(dims[0]), columns, has_targets);
  const auto read = [&](const hdf5::Dataset& from, const char* name, std::int64_t width) {
    return checked(file, shape, name,
                   from.read_rows<std::int64_t>(static_cast<hsize_t>(shape.first_row),
                                                static_cast<hsize_t>(shape.rows),
                                                static_cast<hsize_t>(width)));
  };
  if (!has_targets) {
    return with_next_tokens(read(tokens, "tokens", std::min(shape.context + 1, columns)), shape);
  }
  const hdf5::Dataset targets = matrix_of(file, h5, "targets");
  if (targets.dims() != dims) refuse_tokens(file, "holds tokens and targets of different shapes");
  return {read(tokens, "tokens", shape.context), read(targets, "targets", shape.context)};
}

Batch load_without_hdf5(const std::filesystem::path& file, const BatchShape& shape,
                        const std::optional<TokenDtype>& dtype) {
  TokenFile tokens(file, dtype, shape.vocab);
  const bool is_matrix = tokens.rows().has_value();
  const std::int64_t needed = needed_rows(shape) * shape.context + 1;
  if (is_matrix) {
    require_matrix(file, shape, *tokens.rows(), tokens.columns(), false);
  } else if (tokens.columns() < needed) {
    refuse_tokens(file, fmt::format("holds {} tokens of {}; {} are needed", tokens.columns(),
                                    tokens.type().name(), needed));
  }
  const std::int64_t width =
      is_matrix ? std::min(shape.context + 1, tokens.columns()) : shape.context + 1;
  const std::int64_t stride = is_matrix ? tokens.columns() : shape.context;
  std::vector<std::int64_t> ids;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const std::vector<std::int64_t> more = tokens.read((shape.first_row + row) * stride, width);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return with_next_tokens(checked(file, shape, is_matrix ? "tokens" : "", ids), shape);
}

}  // namespace

Batch random_batch(const BatchShape& shape, std::uint64_t seed) {
  // Row i uses draws [i (T + 1), (i + 1) (T + 1)): T tokens and the last one's target.
  const std::int64_t columns = shape.context + 1;
  std::vector<std::int32_t> drawn(static_cast<std::size_t>(shape.rows * columns));
  Random(seed, token_stream)
      .fill_integers(drawn, static_cast<std::int32_t>(shape.vocab),
                     static_cast<std::uint64_t>(shape.first_row * columns));
  return with_next_tokens(drawn, shape);
}

Batch load_batch(const std::filesystem::path& file, const BatchShape& shape,
                 const std::optional<TokenDtype>& dtype) {
  std::error_code why;
  const std::filesystem::file_status status = std::filesystem::status(file, why);
  if (why) refuse_tokens(file, "cannot be read: " + why.message());
  if (!std::filesystem::is_regular_file(status)) {
    refuse_tokens(file, "is not a file that can be read");
  }
  try {
    return hdf5::File::is_hdf5(file) ? load_hdf5(file, shape, dtype)
                                     : load_without_hdf5(file, shape, dtype);
  } catch (const Hdf5Error& error) {
    refuse_tokens(file, std::string("cannot be read: ") + error.what());
  }
}

}  // namespace paceline
