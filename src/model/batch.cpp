#include "model/batch.h"

#include <fmt/format.h>

#include <fstream>

#include "core/error.h"
#include "core/random.h"
#include "core/step_state.h"
#include "record/hdf5.h"
#include "record/untrusted_file.h"

namespace paceline {

namespace {

constexpr std::uint64_t token_stream = 1ULL << 40U;  // initial weights use streams 0, 1, ...

[[noreturn]] void refuse_tokens(const std::filesystem::path& file, const std::string& what) {
  throw UsageError(fmt::format("--tokens: {} {}", file.string(), what));
}

// place: "token 3", "targets[1, 2]"
template <class Place>
std::int32_t checked_id(const std::filesystem::path& file, std::int64_t id, std::int64_t vocab,
                        const Place& place) {
  if (id < 0 || id >= vocab) {
    refuse_tokens(file, fmt::format("holds {} as {}; --vocab {} allows 0 to {}", id, place(), vocab,
                                    vocab - 1));
  }
  return static_cast<std::int32_t>(id);
}

struct Matrix2 {
  std::vector<std::int64_t> values;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
};

Matrix2 read_matrix(const std::filesystem::path& file, const hdf5::File& h5,
                    const std::string& name) {
  const hdf5::Dataset dataset = h5.dataset(name);
  const hdf5::Dims dims = dataset.dims();
  if (dims.size() != 2 || dataset.type_class() != H5T_INTEGER) {
    refuse_tokens(file, fmt::format("holds '{}', which must be integers [rows, columns]", name));
  }
  return {dataset.read<std::int64_t>(), static_cast<std::int64_t>(dims[0]),
          static_cast<std::int64_t>(dims[1])};
}

Batch load_hdf5(const std::filesystem::path& file, const BatchShape& shape) {
  const hdf5::File h5 = hdf5::File::open(file);
  if (!h5.has("tokens")) refuse_tokens(file, "has no dataset 'tokens'");
  const Matrix2 tokens = read_matrix(file, h5, "tokens");
  const bool has_targets = h5.has("targets");
  const std::int64_t rows = shape.first_row + shape.rows;
  if (tokens.rows < rows || tokens.cols < shape.context) {
    refuse_tokens(file, fmt::format("holds tokens [{}, {}]; [{}, {}] are needed", tokens.rows,
                                    tokens.cols, rows, shape.context));
  }
  if (!has_targets && tokens.cols == 1) {
    refuse_tokens(file,
                  "holds tokens of one column and no targets: no token has a next one to predict");
  }
  const Matrix2 targets = has_targets ? read_matrix(file, h5, "targets") : tokens;
  if (targets.rows != tokens.rows || targets.cols != tokens.cols) {
    refuse_tokens(file, "holds tokens and targets of different shapes");
  }
  const auto id_at = [&](const char* name, const Matrix2& ids, std::int64_t row,
                         std::int64_t column) {
    const std::int64_t id = ids.values[static_cast<std::size_t>(row * ids.cols + column)];
    return checked_id(file, id, shape.vocab,
                      [&] { return fmt::format("{}[{}, {}]", name, row, column); });
  };
  Batch batch;
  for (std::int64_t row = shape.first_row; row < rows; ++row) {
    for (std::int64_t t = 0; t < shape.context; ++t) {
      batch.tokens.push_back(id_at("tokens", tokens, row, t));
      const bool is_last = !has_targets && t + 1 == tokens.cols;
      batch.targets.push_back(is_last       ? no_target
                              : has_targets ? id_at("targets", targets, row, t)
                                            : id_at("tokens", tokens, row, t + 1));
    }
  }
  return batch;
}

Batch load_flat(const std::filesystem::path& file, const BatchShape& shape) {
  const std::int64_t first = shape.first_row * shape.context;
  const std::int64_t count = shape.rows * shape.context + 1;
  const std::uintmax_t bytes = std::filesystem::file_size(file);
  if (bytes % sizeof(std::uint16_t) != 0) {
    refuse_tokens(
        file,
        fmt::format("holds {} bytes: it is neither HDF5 nor tokens of two bytes (uint16)", bytes));
  }
  const auto available = static_cast<std::int64_t>(bytes / sizeof(std::uint16_t));
  if (available < first + count) {
    refuse_tokens(
        file, fmt::format("holds {} tokens of uint16; {} are needed", available, first + count));
  }
  std::vector<std::uint16_t> raw(static_cast<std::size_t>(count));
  std::ifstream in(file, std::ios::binary);
  in.seekg(first * static_cast<std::int64_t>(sizeof(std::uint16_t)));
  in.read(reinterpret_cast<char*>(raw.data()),
          count * static_cast<std::int64_t>(sizeof(std::uint16_t)));
  if (!in) refuse_tokens(file, "cannot be read");
  for (std::size_t i = 0; i < raw.size(); ++i) {
    (void)checked_id(file, raw[i], shape.vocab,
                     [&] { return fmt::format("token {}", first + static_cast<std::int64_t>(i)); });
  }
  return {{raw.begin(), raw.end() - 1}, {raw.begin() + 1, raw.end()}};
}

}  // namespace

Batch random_batch(const BatchShape& shape, std::uint64_t seed) {
  // Row i uses draws [i (T + 1), (i + 1) (T + 1)): T tokens and the last one's target.
  const std::int64_t columns = shape.context + 1;
  std::vector<std::int32_t> drawn(static_cast<std::size_t>(shape.rows * columns));
  Random(seed, token_stream)
      .fill_integers(drawn, static_cast<std::int32_t>(shape.vocab),
                     static_cast<std::uint64_t>(shape.first_row * columns));
  Batch batch;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    const auto first = drawn.begin() + row * columns;
    batch.tokens.insert(batch.tokens.end(), first, first + shape.context);
    batch.targets.insert(batch.targets.end(), first + 1, first + columns);
  }
  return batch;
}

Batch load_batch(const std::filesystem::path& file, const BatchShape& shape) {
  std::error_code why;
  const std::filesystem::file_status status = std::filesystem::status(file, why);
  if (why) refuse_tokens(file, "cannot be read: " + why.message());
  if (!std::filesystem::is_regular_file(status)) {
    refuse_tokens(file, "is not a file that can be read");
  }
  require_readable(file);
  try {
    return hdf5::File::is_hdf5(file) ? load_hdf5(file, shape) : load_flat(file, shape);
  } catch (const Hdf5Error& error) {
    refuse_tokens(file, std::string("cannot be read: ") + error.what());
  }
}

}  // namespace paceline
