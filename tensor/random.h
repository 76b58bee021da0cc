#pragma once
// Counter-based random numbers: a number is a pure function of (key, counter), so nothing needs saving for recomputation, and slices,
// ranks and threads draw the same numbers for the same global element.
#include <array>
#include <cstdint>
#include <string_view>

namespace spool {

/// Philox4x32-10 (Salmon et al., SC 2011): four 32-bit words from a 128-bit counter and a 64-bit key.
std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key);

/// A word as a float in [0, 1) with 24 bits; as a double in [0, 1) from two words with 53 bits.
inline float uniform_from(uint32_t word) { return float(word >> 8) * 0x1p-24f; }
inline double uniform_from(uint32_t high, uint32_t low) { return double(((uint64_t(high) << 32) | low) >> 11) * 0x1p-53; }

/// A stream of random numbers, named by a key. Streams with different keys are independent.
/// `fold` derives a new stream from a number or a name: key(seed).fold("layers.0").fold(step) is the same stream wherever it is formed.
struct RandomKey {
  uint64_t value = 0;
  RandomKey() = default;
  explicit RandomKey(uint64_t seed);
  RandomKey fold(uint64_t number) const;
  RandomKey fold(std::string_view name) const;
  std::array<uint32_t, 2> words() const { return {uint32_t(value), uint32_t(value >> 32)}; }
  bool operator==(const RandomKey&) const = default;
};

/// A key with a running counter, for host code that just wants the next numbers (initialisation of tests, sampling).
class Generator {
 public:
  explicit Generator(uint64_t seed) : key_(seed) {}
  explicit Generator(RandomKey key, uint64_t counter = 0) : key_(key), counter_(counter) {}
  uint32_t next();                          ///< 32 random bits.
  double uniform();                         ///< In [0, 1).
  double normal();                          ///< Mean 0, standard deviation 1 (Box–Muller).
  int64_t integer(int64_t low, int64_t high);  ///< In [low, high), without modulo bias.
  RandomKey key() const { return key_; }
  uint64_t counter() const { return counter_; }

 private:
  RandomKey key_;
  uint64_t counter_ = 0;  // words drawn so far
  std::array<uint32_t, 4> block_{};
  bool loaded_ = false;
};

}  // namespace spool
