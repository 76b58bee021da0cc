#pragma once
// Where a tensor lives. A meta device stands for a real one and has no bytes: it carries shapes through a plan.
#include <cstdint>
#include <string>

namespace spool {

enum class DeviceType : uint8_t { cpu, cuda };

struct Device {
  DeviceType type = DeviceType::cpu;
  int16_t index = 0;
  bool meta = false;  ///< No bytes behind it: ops infer shapes and post allocations, kernels do not run.
  bool operator==(const Device&) const = default;
};

inline constexpr Device cpu{};
inline Device cuda(int index) { return {DeviceType::cuda, int16_t(index), false}; }
/// The meta twin of a device.
inline Device meta(Device of = cpu) { return {of.type, of.index, true}; }

inline std::string to_string(Device device) {
  std::string name = device.type == DeviceType::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
  return device.meta ? "meta(" + name + ")" : name;
}

}  // namespace spool
