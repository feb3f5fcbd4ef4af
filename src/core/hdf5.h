#pragma once
// A thin RAII layer over HDF5's C API: handles that close themselves, and calls that throw
// Hdf5Error with a message about what is missing or damaged. Files are created with the default
// library bounds, so that HDF5 1.10 and later can read them; groups keep the order in which their
// members were created.

#include <hdf5.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "core/non_copyable.h"

namespace paceline {

class Hdf5Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace hdf5 {

using Dims = std::vector<hsize_t>;
using Attribute = std::variant<std::int64_t, double, bool, std::string>;

void silence();  // keeps HDF5 from printing its error stack

[[noreturn]] void throw_error(std::string_view call);

// The result of an HDF5 call; throws if it is negative, HDF5's sign of an error.
template <class T>
T check(T result, std::string_view call) {
  if (result < 0) throw_error(call);
  return result;
}

// An HDF5 id and the function that closes it.
class Handle : NonCopyable {
 public:
  using Close = herr_t (*)(hid_t);

  Handle(hid_t id, Close close, std::string_view call) : id_(check(id, call)), close_(close) {}
  Handle(Handle&& other) noexcept
      : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  [[nodiscard]] hid_t id() const { return id_; }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

// The HDF5 type of a C++ number in memory.
[[nodiscard]] inline hid_t type_of(double /*value*/) { return H5T_NATIVE_DOUBLE; }
[[nodiscard]] inline hid_t type_of(float /*value*/) { return H5T_NATIVE_FLOAT; }
[[nodiscard]] inline hid_t type_of(std::int64_t /*value*/) { return H5T_NATIVE_INT64; }

// A group or a dataset, both of which can have attributes.
class Object {
 public:
  explicit Object(Handle handle) : handle_(std::move(handle)) {}

  [[nodiscard]] hid_t id() const { return handle_.id(); }

  void set_attribute(const std::string& name, const Attribute& value) const;
  [[nodiscard]] bool has_attribute(const std::string& name) const;
  [[nodiscard]] Attribute attribute(const std::string& name) const;
  // "" if there is no attribute of this name or it is not text.
  [[nodiscard]] std::string text_attribute(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> attribute_names() const;  // sorted

 protected:
  Handle handle_;
};

class Dataset : public Object {
 public:
  using Object::Object;

  [[nodiscard]] Dims dims() const;
  [[nodiscard]] std::size_t size() const;  // the product of them
  // H5T_INTEGER, H5T_FLOAT, H5T_STRING, ...
  [[nodiscard]] H5T_class_t type_class() const { return H5Tget_class(type().id()); }
  // Bytes in the file.
  [[nodiscard]] std::size_t element_size() const { return H5Tget_size(type().id()); }
  // Of an integer type.
  [[nodiscard]] bool is_signed() const { return H5Tget_sign(type().id()) != H5T_SGN_NONE; }
  // Throws Hdf5Error if its elements are in other files, or compressed with a filter that this HDF5
  // lacks.
  void require_readable() const;

  // Names the dimension and attaches `scale` to it: a dataset of the same file and of the
  // dimension's length, with the coordinate of each index. H5Ocopy copies neither: in a copy, call
  // remove_scales(), then attach the scales again.
  void attach_scale(unsigned dimension, const std::string& name, const Dataset& scale) const;
  void remove_scales() const;

  // All elements, row-major; HDF5 converts numbers to T. std::string reads strings of variable
  // length only.
  template <class T>
  [[nodiscard]] std::vector<T> read() const {
    std::vector<T> values(size());
    read_into(type_of(T{}), values.data());
    return values;
  }

  // The elements of a matrix in rows [row, row + rows) and the first `columns` columns, row-major.
  template <class T>
  [[nodiscard]] std::vector<T> read_rows(hsize_t row, hsize_t rows, hsize_t columns) const {
    std::vector<T> values(rows * columns);
    read_block(type_of(T{}), {row, 0}, {rows, columns}, values.data());
    return values;
  }

 private:
  [[nodiscard]] Handle type() const;
  void read_into(hid_t type, void* values) const;
  void read_block(hid_t type, const Dims& first, const Dims& count, void* values) const;
  void check_read(herr_t result) const;
};
template <>
std::vector<std::string> Dataset::read<std::string>() const;

class Group : public Object {
 public:
  using Object::Object;

  // Whether every component of the path "a/b" exists.
  [[nodiscard]] bool has(const std::string& path) const;
  [[nodiscard]] Group group(const std::string& path) const;
  // Creates every missing component of the path.
  [[nodiscard]] Group make_group(const std::string& path) const;
  [[nodiscard]] bool is_group(const std::string& name) const;
  // Throws Hdf5Error for a link to another file.
  void refuse_external_link(const std::string& name) const;
  // In order of creation, or sorted if the file's writer recorded no order.
  [[nodiscard]] std::vector<std::string> names() const;

  [[nodiscard]] Dataset dataset(const std::string& path) const;
  // Writes a dataset of this shape; `values` are its elements, row-major.
  template <class T>
  Dataset write(const std::string& name, std::span<const T> values, const Dims& dims) const {
    return write_from(name, type_of(T{}), values.data(), values.size(), dims);
  }
  template <class T>
  Dataset write(const std::string& name, const std::vector<T>& values) const {
    return write(name, std::span<const T>(values), {values.size()});
  }
  Dataset write(const std::string& name, const std::vector<std::string>& values) const;

  // A deep copy of `from`/`name` under the same name here; `from` may be in another file.
  void copy_from(const Group& from, const std::string& name) const;
  // A hard link: the object at `path` is also `name` here.
  void link(const std::string& path, const std::string& name) const;

 private:
  [[nodiscard]] Dataset write_from(const std::string& name, hid_t type, const void* values,
                                   std::size_t count, const Dims& dims) const;
};

// HDF5 trusts its input: a damaged or hostile file can crash it. While a CrashReport exists, a
// crash of this process prints "paceline: FILE crashes HDF5: it is damaged" and ends it with
// ExitCode::usage. One at a time.
class CrashReport : NonCopyable {
 public:
  explicit CrashReport(std::string_view file);  // with its option: "--tokens: t.h5"
  ~CrashReport();

 private:
  static constexpr std::array signals = {SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL};
  std::array<struct sigaction, signals.size()> previous_;
};

// A file, seen as its root group.
class File : public Group {
 public:
  // Read-only. Locks the file unless HDF5_USE_FILE_LOCKING is FALSE or its file system has no
  // locks.
  [[nodiscard]] static File open(const std::filesystem::path& path);
  [[nodiscard]] static bool lacks_locks(const std::filesystem::path& path);  // its file system
  [[nodiscard]] static bool is_hdf5(const std::filesystem::path& path);      // by its signature
  // A new file, in memory only.
  [[nodiscard]] static File in_memory();
  // A file of these bytes, in memory, to be read.
  [[nodiscard]] static File of_image(std::string_view bytes);

  // The bytes of a file in memory, as they would be on disk. Valid until the file changes.
  [[nodiscard]] std::string_view image() const;

 private:
  using Group::Group;
};

}  // namespace hdf5

}  // namespace paceline
