#include "cuda/runtime/nvml.h"

#include <dlfcn.h>

#include <cmath>
#include <limits>
#include <utility>

namespace paceline {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr int success = 0;
constexpr int is_integer = 1;  // NVML_VALUE_TYPE_UNSIGNED_INT

}  // namespace

struct Nvml::Functions {
  // nvmlFieldValue_t
  struct FieldValue {
    unsigned id;
    unsigned scope;
    long long timestamp;
    long long latency;
    int type;  // nvmlValueType_t: 0 double, 1 unsigned int, ...
    int result;
    union {
      double real;
      unsigned integer;
      unsigned long long wide;
    } value;
  };
  static_assert(sizeof(FieldValue) == 40);

  int (*init)();
  int (*shutdown)();
  int (*handle)(const char*, Gpu*);
  int (*clock)(Gpu, int, unsigned*);
  int (*power)(Gpu, unsigned*);
  int (*temperature)(Gpu, int, unsigned*);
  int (*clock_limits)(Gpu, unsigned long long*);
  int (*fields)(Gpu, int, FieldValue*);
  int (*nvlink_state)(Gpu, unsigned, int*);
};

std::shared_ptr<const Nvml> Nvml::open() {
  void* library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (library == nullptr) return nullptr;
  auto call = std::make_unique<Functions>();
  bool found = true;
  const auto load = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    found = found && function != nullptr;
  };
  load(call->init, "nvmlInit_v2");
  load(call->shutdown, "nvmlShutdown");
  load(call->handle, "nvmlDeviceGetHandleByPciBusId_v2");
  load(call->clock, "nvmlDeviceGetClockInfo");
  load(call->power, "nvmlDeviceGetPowerUsage");
  load(call->temperature, "nvmlDeviceGetTemperature");
  load(call->clock_limits, "nvmlDeviceGetCurrentClocksThrottleReasons");
  load(call->fields, "nvmlDeviceGetFieldValues");
  load(call->nvlink_state, "nvmlDeviceGetNvLinkState");
  if (!found || call->init() != success) {
    dlclose(library);
    return nullptr;
  }
  return std::shared_ptr<const Nvml>(new Nvml(library, std::move(call)));
}

Nvml::Nvml(void* library, std::unique_ptr<Functions> functions)
    : library_(library), call_(std::move(functions)) {}

Nvml::~Nvml() {
  call_->shutdown();
  dlclose(library_);
}

Nvml::Gpu Nvml::gpu(const std::string& pci_bus_id) const {
  Gpu gpu = nullptr;
  return call_->handle(pci_bus_id.c_str(), &gpu) == success ? gpu : nullptr;
}

double Nvml::clock(Gpu gpu, int type) const {
  constexpr double mega = 1e6;
  unsigned mhz = 0;
  return call_->clock(gpu, type, &mhz) == success ? mega * mhz : nan;
}

double Nvml::sm_clock(Gpu gpu) const {
  constexpr int sm = 1;  // NVML_CLOCK_SM
  return clock(gpu, sm);
}

double Nvml::memory_clock(Gpu gpu) const {
  constexpr int memory = 2;  // NVML_CLOCK_MEM
  return clock(gpu, memory);
}

// Since Ampere nvmlDeviceGetPowerUsage reports the mean of the last second.
double Nvml::power(Gpu gpu) const {
  constexpr double milli = 1e-3;
  constexpr unsigned instant = 186;  // NVML_FI_DEV_POWER_INSTANT, mW
  const double now = field(gpu, instant, 0);
  if (!std::isnan(now)) return milli * now;
  unsigned mean = 0;
  return call_->power(gpu, &mean) == success ? milli * mean : nan;
}

double Nvml::temperature(Gpu gpu) const {
  constexpr int of_gpu = 0;  // NVML_TEMPERATURE_GPU
  unsigned degrees = 0;
  return call_->temperature(gpu, of_gpu, &degrees) == success ? degrees : nan;
}

std::uint64_t Nvml::clock_limits(Gpu gpu) const {
  unsigned long long reasons = 0;
  return call_->clock_limits(gpu, &reasons) == success ? reasons : 0;
}

double Nvml::field(Gpu gpu, unsigned id, unsigned scope) const {
  Functions::FieldValue field{};
  field.id = id;
  field.scope = scope;
  const bool told = call_->fields(gpu, 1, &field) == success && field.result == success;
  return told && field.type == is_integer ? field.value.integer : nan;
}

std::vector<double> Nvml::nvlinks(Gpu gpu) const {
  constexpr unsigned most = 36;    // NVML_NVLINK_MAX_LINKS
  constexpr unsigned speed = 164;  // NVML_FI_DEV_NVLINK_GET_SPEED, MB/s; scope: the link
  constexpr double mega = 1e6;
  std::vector<double> rates;
  for (unsigned link = 0; link < most; ++link) {
    int is_up = 0;
    if (call_->nvlink_state(gpu, link, &is_up) != success || is_up == 0) continue;
    rates.push_back(mega * field(gpu, speed, link));
  }
  return rates;
}

}  // namespace paceline
