// A library that any program can be started with, to see what its GPU did: every kernel, copy and
// memset with begin and end in nanoseconds, through CUPTI's activity records.
//
//   make trace
//   CUDA_INJECTION64_PATH=build/kernel_trace.so KERNEL_TRACE=trace.tsv build/paceline model ...
//   python3 bench/trace/kernel_table.py trace.tsv
//
// CUDA's driver loads the library and calls InitializeInjection().

#include <cupti.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Activity {
  std::uint64_t begin;  // ns
  std::uint64_t end;
  std::uint32_t stream;
  std::int32_t blocks;  // 0 for copies
  std::string name;
};

constexpr std::size_t buffer_bytes = std::size_t{1} << 20U;
std::mutex lock;
std::vector<Activity> activities;

template <class Record>
void add(const Record& r, std::int32_t blocks, std::string name) {
  activities.push_back({r.start, r.end, r.streamId, blocks, std::move(name)});
}

void take(const CUpti_Activity& any) {
  switch (any.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& k = reinterpret_cast<const CUpti_ActivityKernel10&>(any);
      add(k, k.gridX * k.gridY * k.gridZ, k.name);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& m = reinterpret_cast<const CUpti_ActivityMemcpy6&>(any);
      add(m, 0, "copy");
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& m = reinterpret_cast<const CUpti_ActivityMemset4&>(any);
      add(m, 0, "memset");
      break;
    }
    default: break;
  }
}

void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* most_records) {
  *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(64, buffer_bytes));
  *size = buffer_bytes;
  *most_records = 0;  // as many as fit
}

void take_buffer(CUcontext /*context*/, std::uint32_t /*stream*/, std::uint8_t* buffer,
                 std::size_t /*size*/, std::size_t valid) {
  const std::scoped_lock locked(lock);
  CUpti_Activity* record = nullptr;
  while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) take(*record);
  std::free(buffer);
}

void check(const char* what, CUptiResult result) {
  if (result == CUPTI_SUCCESS) return;
  const char* text = nullptr;
  cuptiGetResultString(result, &text);
  std::fprintf(stderr, "kernel_trace: %s: %s\n", what, text != nullptr ? text : "failed");
}

void write_trace() {
  check("collecting records", cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED));
  if (activities.empty()) return;  // a launcher's own process
  const char* path = std::getenv("KERNEL_TRACE");
  std::FILE* file = std::fopen(path != nullptr ? path : "trace.tsv", "w");
  if (file == nullptr) return;
  std::fputs("begin_ns\tend_ns\tstream\tblocks\tname\n", file);
  for (const Activity& a : activities) {
    std::fprintf(file, "%llu\t%llu\t%u\t%d\t%s\n", static_cast<unsigned long long>(a.begin),
                 static_cast<unsigned long long>(a.end), a.stream, a.blocks, a.name.c_str());
  }
  std::fclose(file);
}

}  // namespace

extern "C" int InitializeInjection() {
  check("registering callbacks", cuptiActivityRegisterCallbacks(give_buffer, take_buffer));
  for (const CUpti_ActivityKind kind : {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                        CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    check("enabling records", cuptiActivityEnable(kind));
  }
  // At exit the context may be gone, and with it what was not collected.
  constexpr std::uint32_t milliseconds = 50;
  check("collecting records", cuptiActivityFlushPeriod(milliseconds));
  std::atexit(write_trace);
  return 1;
}
