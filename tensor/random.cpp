#include <spool/tensor/random.h>

#include <cmath>
#include <numbers>

namespace spool {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t(0xD2511F53) * c[0], b = uint64_t(0xCD9E8D57) * c[2];
    c = {uint32_t(b >> 32) ^ c[1] ^ k[0], uint32_t(b), uint32_t(a >> 32) ^ c[3] ^ k[1], uint32_t(a)};
    k = {k[0] + 0x9E3779B9, k[1] + 0xBB67AE85};
  }
  return c;
}

namespace {
uint64_t mix(uint64_t key, uint64_t data) {
  const auto w = philox4x32({uint32_t(data), uint32_t(data >> 32), 0x5350u, 0x4f4fu}, {uint32_t(key), uint32_t(key >> 32)});
  return (uint64_t(w[1]) << 32) | w[0];
}
}  // namespace

RandomKey::RandomKey(uint64_t seed) : value(mix(0, seed)) {}

RandomKey RandomKey::fold(uint64_t number) const {
  RandomKey out;
  out.value = mix(value, number);
  return out;
}

RandomKey RandomKey::fold(std::string_view name) const {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : name) hash = (hash ^ uint8_t(c)) * 0x100000001b3;
  return fold(hash ^ 0x6e616d65);
}

uint32_t Generator::next() {
  const auto lane = size_t(counter_ % 4);
  if (lane == 0 || !loaded_) {
    loaded_ = true;
    const uint64_t block = counter_ / 4;
    block_ = philox4x32({uint32_t(block), uint32_t(block >> 32), 0, 0}, key_.words());
  }
  ++counter_;
  return block_[lane];
}

double Generator::uniform() {
  const uint32_t high = next();
  return uniform_from(high, next());
}

double Generator::normal() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * std::numbers::pi * uniform());
}

int64_t Generator::integer(int64_t low, int64_t high) {
  const auto range = uint64_t(high - low);
  const uint64_t limit = UINT64_MAX - UINT64_MAX % range;
  for (;;) {
    const uint64_t upper = next();
    const uint64_t draw = (upper << 32) | next();
    if (draw < limit) return low + int64_t(draw % range);
  }
}

}  // namespace spool
