#include "train/windows.h"

#include <fmt/format.h>
#include <spool/tensor/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "train/format.h"

namespace spool::train {

Windows::Windows(TokenStreamPtr tokens, int64_t window, std::string_view what) : tokens_(std::move(tokens)), window_(window) {
  if (window < 1) fail<ConfigError>("windows: the window size must be at least 1, but is ", window);
  if (count() > 0) return;
  const bool bytes = tokens_->unit() == "bytes";
  fail<IoError>(fmt::format("{}: too short: the {} part has {} {}, but {} are needed; use longer data, or set data.seq or data.batch lower",
                            tokens_->corpus()->name(), what, format_count(size()),
                            bytes ? fmt::format("of the {} bytes", format_count(tokens_->corpus()->size())) : "tokens", format_count(window)));
}

void Windows::read(int64_t index, std::span<int32_t> out) const {
  if (int64_t(out.size()) != window_ || index < 0)
    fail<IndexError>("windows: asked for ", out.size(), " tokens of window ", index, ", but windows have ", window_);
  read_at(index % count() * window_, out);
}

int64_t permuted(int64_t index, int64_t count, RandomKey key) {
  const int half = (std::bit_width(uint64_t(std::max<int64_t>(count - 1, 1))) + 1) / 2;
  const uint64_t mask = (uint64_t(1) << half) - 1;
  uint64_t at = uint64_t(index);
  do {
    uint64_t left = at >> half, right = at & mask;
    for (uint32_t round = 0; round < 4; ++round) {
      const uint64_t mixed = philox4x32({uint32_t(right), uint32_t(right >> 32), round, 0}, key.words())[0];
      left = std::exchange(right, (left ^ mixed) & mask);
    }
    at = left << half | right;
  } while (at >= uint64_t(count));
  return int64_t(at);
}

ShuffledWindows::ShuffledWindows(TokenStreamPtr tokens, int64_t window, RandomKey key, std::string_view what)
    : windows_(std::move(tokens), window, what), key_(key) {}

void ShuffledWindows::read(int64_t index, std::span<int32_t> out) const {
  const RandomKey epoch = key_.fold(uint64_t(index / count()));
  const int64_t room = windows_.size() - count() * window() + 1;  // the grid's possible starts
  const int64_t offset = Generator(epoch.fold("offset")).integer(0, std::min(window(), room));
  windows_.read_at(offset + permuted(index % count(), count(), epoch) * window(), out);
}

std::vector<int64_t> fixed_windows(int64_t count, int64_t wanted) {
  const int64_t n = wanted <= 0 ? count : std::min(count, wanted);
  std::vector<int64_t> out(size_t(std::max<int64_t>(n, 0)));
  for (int64_t i = 0; i < n; ++i) out[size_t(i)] = int64_t(double(i) * double(count) / double(n));
  return out;
}

void copy_sequence(uint64_t seed, std::string_view stream, int64_t step, int64_t row, std::span<int32_t> out) {
  const size_t half = out.size() / 2;
  if (out.size() < 4 || out.size() % 2 != 0) fail<ConfigError>("copying task: the sequence length must be even and at least 4, but is ", out.size());
  const auto key = RandomKey(seed).fold("data.copy").fold(stream).words();
  out[0] = 0;
  std::array<uint32_t, 4> words{};
  for (size_t i = 1; i < half; ++i) {
    if (const size_t draw = i - 1; draw % 4 == 0)
      words = philox4x32({uint32_t(draw / 4), uint32_t(row), uint32_t(step), uint32_t(uint64_t(step) >> 32)}, key);
    out[i] = int32_t(1 + ((uint64_t(words[(i - 1) % 4]) * 255) >> 32));
  }
  std::copy_n(out.begin(), half, out.begin() + std::ptrdiff_t(half));
}

}  // namespace spool::train
