// --tokens: flat files of uint16. tests/fuzz/files.py covers HDF5 files.

#include "core/hdf5.h"
#include "model/batch.h"
#include "tests/fuzz/fuzz.h"

using namespace paceline;

// The first four bytes are the shape; the other bytes are the file.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t of_shape = 4;
  if (size < of_shape) return 0;
  const BatchShape shape{.first_row = data[0] % 4,
                         .rows = 1 + data[1] % 4,
                         .context = 1 + data[2] % 16,
                         .vocab = 1 + std::int64_t{data[3]} * 257};
  const fuzz::MemoryFile file(fuzz::text_of(data + of_shape, size - of_shape));
  if (hdf5::File::is_hdf5(file.path())) return 0;
  fuzz::accepted([&] {
    const Batch batch = load_batch(file.path(), shape);
    fuzz::require(batch.tokens.size() == static_cast<std::size_t>(shape.rows * shape.context));
    fuzz::require(batch.targets.size() == batch.tokens.size());
    for (const std::int32_t id : batch.tokens) fuzz::require(id >= 0 && id < shape.vocab);
    for (const std::int32_t id : batch.targets) fuzz::require(id >= 0 && id < shape.vocab);
  });
  return 0;
}
